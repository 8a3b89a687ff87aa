"""Make the tables, their append-only guards and their first rows."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = ("ledger_line", "key_lines", "policy", "payment_event")


def upgrade() -> None:
    _the_ground()
    _records()
    _who_may_see()
    _plan()
    _ledger()
    _out_and_back()
    _money()
    _made_up_questions()
    _running()
    _first_rows()
    if op.get_context().dialect.name == "sqlite":
        _sqlite_guards()
    else:
        _postgres_guards()


def _id(name: str) -> sa.Column[int]:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, number, autoincrement=False, nullable=False)


def _big(name: str, *, null: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=null)


def _text(
    name: str, length: int | None = None, *, null: bool = False
) -> sa.Column[str]:
    kind = sa.Text() if length is None else sa.String(length)
    return sa.Column(name, kind, nullable=null)


def _bytes(name: str, *, null: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary(), nullable=null)


def _the_ground() -> None:
    op.create_table(
        "id_block",
        _text("name", 40),
        _big("next_id"),
        sa.PrimaryKeyConstraint("name", name="pk_id_block"),
    )

    op.create_table(
        "setting",
        _text("name", 40),
        _bytes("value"),
        sa.PrimaryKeyConstraint("name", name="pk_setting"),
    )

    op.create_table(
        "value_key",
        _id("id"),
        _text("kek", 16),
        _bytes("wrapped"),
        sa.PrimaryKeyConstraint("id", name="pk_value_key"),
    )

    op.create_table(
        "field",
        _id("id"),
        _text("name"),
        sa.PrimaryKeyConstraint("id", name="pk_field"),
        sa.UniqueConstraint("name", name="uq_field_name"),
    )

    op.create_table(
        "policy",
        _id("version"),
        _text("name"),
        _bytes("source"),
        _text("sha256", 64),
        _big("applied_at"),
        sa.PrimaryKeyConstraint("version", name="pk_policy"),
    )

    op.create_table(
        "policy_lock",
        _id("id"),
        _big("policy_version"),
        sa.PrimaryKeyConstraint("id", name="pk_policy_lock"),
    )


def _records() -> None:
    op.create_table(
        "run",
        _id("id"),
        _text("name"),
        _text("state", 12),
        _big("created_at"),
        _big("pilot", null=True),
        _big("piloted", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_run"),
        sa.CheckConstraint(
            "state = 'active' OR state IN ('lost')",
            name=op.f("ck_run_state"),
        ),
        sa.UniqueConstraint("name", name="uq_run_name"),
    )

    op.create_table(
        "load",
        _id("id"),
        _big("run_id"),
        _text("source"),
        _text("columns"),
        _big("records"),
        _big("rejected"),
        _text("state", 12),
        _big("started_at"),
        sa.PrimaryKeyConstraint("id", name="pk_load"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_load_run_id_run"),
        sa.CheckConstraint(
            "state = 'loading' OR state IN ('done')", name=op.f("ck_load_state")
        ),
    )

    op.create_table(
        "subject",
        _id("id"),
        _text("pseudonym", 64),
        _bytes("value"),
        _big("key_id", null=True),
        _big("erased_at", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_subject"),
        sa.UniqueConstraint("pseudonym", name="uq_subject_pseudonym"),
    )

    op.create_table(
        "record",
        _id("id"),
        _big("run_id"),
        _big("load_id"),
        _text("pseudonym", 64),
        _bytes("key"),
        _bytes("columns"),
        _big("key_id", null=True),
        _big("subject_id", null=True),
        _big("loaded_at", null=True),
        _big("erased_at", null=True),
        _big("lost_at", null=True),
        _big("waits_since", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_record"),
        sa.UniqueConstraint("pseudonym", name="uq_record_pseudonym"),
    )
    op.create_index("ix_record_run_id", "record", ["run_id"])
    op.create_index("ix_record_subject_id", "record", ["subject_id"])
    op.create_index(
        "ix_record_waiting",
        "record",
        ["run_id"],
        postgresql_where=sa.text("waits_since IS NOT NULL"),
        sqlite_where=sa.text("waits_since IS NOT NULL"),
    )

    op.create_table(
        "suppression",
        _text("name", 64),
        sa.PrimaryKeyConstraint("name", name="pk_suppression"),
    )

    op.create_table(
        "entry",
        _id("id"),
        _big("record_id"),
        _big("field_id"),
        _big("subject_id", null=True),
        _big("time", null=True),
        _text("vector", 64, null=True),
        _big("visits", null=True),
        _bytes("shown"),
        _text("media", 40),
        _big("key_id", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_entry"),
        sa.UniqueConstraint(
            "record_id", "field_id", name="uq_entry_record_id_field_id"
        ),
    )
    op.create_index("ix_entry_subject_id", "entry", ["subject_id"])


def _who_may_see() -> None:
    op.create_table(
        "chain",
        _id("id"),
        _text("name", 64),
        _big("seq"),
        _text("head", 64),
        _big("at"),
        _big("policy_version"),
        _big("sealed_seq"),
        _big("survivor_id", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_chain"),
        sa.UniqueConstraint("name", name="uq_chain_name"),
    )
    op.create_index("ix_chain_survivor_id", "chain", ["survivor_id"])

    op.create_table(
        "account",
        _id("id"),
        _text("connector", 40),
        _text("name"),
        _big("adversary_id"),
        _text("groups"),
        _text("state", 12),
        _big("invite"),
        sa.Column("quality", sa.Float(), nullable=False),
        _big("judged_from", null=True),
        _text("language", 40, null=True),
        sa.PrimaryKeyConstraint("id", name="pk_account"),
        sa.CheckConstraint(
            "state = 'active' OR state IN ('blocked', 'stopped', 'left')",
            name=op.f("ck_account_state"),
        ),
        sa.UniqueConstraint("connector", "name", name="uq_account_connector_name"),
    )
    op.create_index("ix_account_adversary_id", "account", ["adversary_id"])

    op.create_table(
        "recusal",
        _id("adversary_id"),
        _id("unit_id"),
        sa.PrimaryKeyConstraint("adversary_id", "unit_id", name="pk_recusal"),
    )


def _plan() -> None:
    op.create_table(
        "plan",
        _id("id"),
        _big("policy_version"),
        _text("state", 12),
        _text("verdict", 12),
        _text("algorithm", 40),
        _big("seed"),
        _text("summary"),
        _big("created_at"),
        _big("applied_at", null=True),
        _big("refused", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_plan"),
        sa.CheckConstraint(
            "state = 'draft' OR state IN ('applied', 'dropped', 'superseded')",
            name=op.f("ck_plan_state"),
        ),
    )

    op.create_table(
        "assignment",
        _id("plan_id"),
        _id("account_id"),
        _big("adversary_id"),
        _bytes("entries"),
        sa.PrimaryKeyConstraint("plan_id", "account_id", name="pk_assignment"),
        sa.ForeignKeyConstraint(
            ["plan_id"], ["plan.id"], name="fk_assignment_plan_id_plan"
        ),
    )
    op.create_index("ix_assignment_adversary_id", "assignment", ["adversary_id"])

    op.create_table(
        "held_back",
        _id("entry_id"),
        _text("reason"),
        sa.PrimaryKeyConstraint("entry_id", name="pk_held_back"),
    )


def _ledger() -> None:
    op.create_table(
        "ledger_line",
        _id("chain_id"),
        _id("seq"),
        _text("kind", 8),
        _big("at"),
        _big("policy_version"),
        _big("account_id", null=True),
        _big("entry_id", null=True),
        _text("cause", 20, null=True),
        sa.Column("showing", sa.SmallInteger(), nullable=True),
        _text("body", null=True),
        _bytes("hash"),
        sa.PrimaryKeyConstraint("chain_id", "seq", name="pk_ledger_line"),
        sa.CheckConstraint(
            "kind = 'exposure' OR kind IN ('member','join','policy','keys','unburn','seal')",
            name=op.f("ck_ledger_line_kind"),
        ),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_ledger_line_seq")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_ledger_line_entry_id_ledger_line_showing",
        "ledger_line",
        ["entry_id", "showing"],
    )

    op.create_table(
        "exposure_count",
        _id("adversary_id"),
        _id("unit_id"),
        _id("field_id"),
        _id("time"),
        _big("entries"),
        sa.PrimaryKeyConstraint(
            "adversary_id", "unit_id", "field_id", "time", name="pk_exposure_count"
        ),
        sa.CheckConstraint("entries >= 1", name=op.f("ck_exposure_count_entries")),
        sqlite_with_rowid=False,
    )

    op.create_table(
        "link",
        _id("id"),
        _text("relation", 400),
        _text("one", 64),
        _text("other", 64),
        _big("version"),
        sa.PrimaryKeyConstraint("id", name="pk_link"),
        sa.UniqueConstraint(
            "relation", "one", "other", name="uq_link_relation_one_other"
        ),
    )
    op.create_index(
        "ix_link_relation_link_other_link_one", "link", ["relation", "other", "one"]
    )

    op.create_table(
        "visit",
        _id("adversary_id"),
        _id("subject_id"),
        _id("field_id"),
        _text("place", 64),
        _big("visits"),
        sa.PrimaryKeyConstraint(
            "adversary_id", "subject_id", "field_id", "place", name="pk_visit"
        ),
        sa.CheckConstraint("visits >= 1", name=op.f("ck_visit_visits")),
        sqlite_with_rowid=False,
    )

    op.create_table(
        "rule_table",
        _id("version"),
        _text("property", 400),
        _text("source"),
        _text("sha256", 64),
        _text("levels"),
        _text("worlds"),
        sa.PrimaryKeyConstraint("version", "property", name="pk_rule_table"),
    )

    op.create_table(
        "set_count",
        _text("property", 400),
        _big("sets"),
        sa.PrimaryKeyConstraint("property", name="pk_set_count"),
    )

    op.create_table(
        "disclosure_sum",
        _id("adversary_id"),
        _text("property", 400),
        _text("total"),
        sa.PrimaryKeyConstraint("adversary_id", "property", name="pk_disclosure_sum"),
    )

    op.create_table(
        "key_lines",
        _id("seq"),
        _bytes("keys"),
        _bytes("relations"),
        _bytes("facts"),
        _big("repeats"),
        sa.PrimaryKeyConstraint("seq", name="pk_key_lines"),
    )


def _out_and_back() -> None:
    op.create_table(
        "outbox",
        _id("id"),
        _text("connector", 40),
        _big("account_id"),
        _text("kind", 8),
        _text("state", 12),
        _big("due"),
        _big("attempts"),
        _big("epoch"),
        _big("leased_until", null=True),
        _text("handle", null=True),
        _text("error", null=True),
        _big("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.CheckConstraint(
            "kind IN ('publish','offer','withdraw')", name=op.f("ck_outbox_kind")
        ),
        sa.CheckConstraint(
            "state = 'ready' OR state IN ('leased', 'sent', 'dead', 'cancelled')",
            name=op.f("ck_outbox_state"),
        ),
    )
    op.create_index(
        "ix_outbox_state_outbox_due_outbox_id", "outbox", ["state", "due", "id"]
    )

    op.create_table(
        "task",
        _id("id"),
        _big("entry_id"),
        _big("account_id"),
        _big("adversary_id"),
        _text("connector", 40),
        _big("outbox_id", null=True),
        _text("state", 12),
        _big("created_at"),
        _big("leased_until", null=True),
        _bytes("draft", null=True),
        _big("key_id", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_task"),
        sa.CheckConstraint(
            "state = 'booked' OR state IN ('sent', 'shown', 'expired', 'returned', 'dead', 'published', 'answered')",
            name=op.f("ck_task_state"),
        ),
    )
    op.create_index(
        "ix_task_account_id_task_created_at", "task", ["account_id", "created_at"]
    )
    op.create_index(
        "ix_task_shown",
        "task",
        ["account_id", "leased_until"],
        postgresql_where=sa.text("state = 'shown'"),
        sqlite_where=sa.text("state = 'shown'"),
    )
    op.create_index("ix_task_entry_id", "task", ["entry_id"])
    op.create_index("ix_task_outbox_id", "task", ["outbox_id"])

    op.create_table(
        "answer",
        _id("task_id"),
        _big("entry_id"),
        _big("account_id"),
        _bytes("raw"),
        _big("key_id", null=True),
        sa.Column("valid", sa.SmallInteger(), nullable=False),
        _text("reason", null=True),
        _big("at"),
        sa.Column("counted", sa.SmallInteger(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_answer"),
    )
    op.create_index(
        "ix_answer_uncounted",
        "answer",
        ["entry_id"],
        postgresql_where=sa.text("counted = 0"),
        sqlite_where=sa.text("counted = 0"),
    )
    op.create_index("ix_answer_entry_id", "answer", ["entry_id"])

    op.create_table(
        "result",
        _id("entry_id"),
        _bytes("value", null=True),
        _big("key_id", null=True),
        sa.Column("confidence", sa.Float(), nullable=False),
        _big("wanted"),
        _text("state", 12),
        _big("at"),
        sa.PrimaryKeyConstraint("entry_id", name="pk_result"),
        sa.CheckConstraint(
            "state = 'open' OR state IN ('conflict', 'answered', 'erased')",
            name=op.f("ck_result_state"),
        ),
    )

    op.create_table(
        "quarantine",
        _id("id"),
        _text("connector", 40),
        _text("reason"),
        _bytes("payload"),
        _big("key_id", null=True),
        _big("at"),
        _big("dismissed_at", null=True),
        _text("dismissed_why", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_quarantine"),
    )

    op.create_table(
        "export_file",
        _id("id"),
        _big("run_id"),
        _text("path"),
        _big("at"),
        sa.PrimaryKeyConstraint("id", name="pk_export_file"),
        sa.ForeignKeyConstraint(
            ["run_id"], ["run.id"], name="fk_export_file_run_id_run"
        ),
    )


def _made_up_questions() -> None:
    op.create_table(
        "gold_question",
        _id("id"),
        _big("field_id"),
        _text("purpose", 4),
        _bytes("shown"),
        _text("media", 40),
        _bytes("answer"),
        _big("retired_at", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_gold_question"),
        sa.ForeignKeyConstraint(
            ["field_id"], ["field.id"], name="fk_gold_question_field_id_field"
        ),
        sa.CheckConstraint(
            "purpose IN ('test','gold')", name=op.f("ck_gold_question_purpose")
        ),
    )
    op.create_index("ix_gold_question_field_id", "gold_question", ["field_id"])

    op.create_table(
        "field_test",
        _id("field_id"),
        sa.Column("pass_share", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("field_id", name="pk_field_test"),
        sa.ForeignKeyConstraint(
            ["field_id"], ["field.id"], name="fk_field_test_field_id_field"
        ),
        sa.CheckConstraint(
            "pass_share > 0 AND pass_share <= 1",
            name=op.f("ck_field_test_pass_share"),
        ),
    )

    op.create_table(
        "qualification",
        _id("account_id"),
        _id("field_id"),
        _text("state", 12),
        _big("attempt"),
        _big("asked"),
        _big("correct"),
        _big("ended_at", null=True),
        sa.PrimaryKeyConstraint("account_id", "field_id", name="pk_qualification"),
        sa.ForeignKeyConstraint(
            ["field_id"], ["field.id"], name="fk_qualification_field_id_field"
        ),
        sa.CheckConstraint(
            "state = 'open' OR state IN ('failed', 'passed')",
            name=op.f("ck_qualification_state"),
        ),
    )

    op.create_table(
        "gold_task",
        _id("id"),
        _big("gold_question_id"),
        _big("account_id"),
        _text("state", 12),
        _big("created_at"),
        _big("leased_until", null=True),
        _bytes("draft", null=True),
        _big("attempt"),
        sa.Column("correct", sa.SmallInteger(), nullable=True),
        _big("ended_at", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_gold_task"),
        sa.ForeignKeyConstraint(
            ["gold_question_id"],
            ["gold_question.id"],
            name="fk_gold_task_gold_question_id_gold_question",
        ),
        sa.CheckConstraint(
            "state = 'shown' OR state IN ('expired', 'returned', 'answered')",
            name=op.f("ck_gold_task_state"),
        ),
    )
    op.create_index("ix_gold_task_account_id", "gold_task", ["account_id"])
    op.create_index("ix_gold_task_gold_question_id", "gold_task", ["gold_question_id"])
    op.create_index(
        "ix_gold_task_shown",
        "gold_task",
        ["account_id", "leased_until"],
        postgresql_where=sa.text("state = 'shown'"),
        sqlite_where=sa.text("state = 'shown'"),
    )


def _money() -> None:
    op.create_table(
        "budget",
        _id("run_id"),
        _text("currency", 3),
        _big("cap"),
        _big("per_day", null=True),
        _big("reward"),
        _big("bonus"),
        _big("fee"),
        _big("taken"),
        _big("paid"),
        _big("day"),
        _big("day_taken"),
        sa.PrimaryKeyConstraint("run_id", name="pk_budget"),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_budget_run_id_run"),
        sa.CheckConstraint(
            "cap >= 0 AND reward >= 0 AND bonus >= 0", name=op.f("ck_budget_amounts")
        ),
        sa.CheckConstraint("taken >= paid AND paid >= 0", name=op.f("ck_budget_taken")),
    )

    op.create_table(
        "payment",
        _text("kind", 8),
        _id("about"),
        _big("run_id"),
        _big("account_id"),
        _text("connector", 40),
        _big("piece", null=True),
        _big("amount"),
        _big("fee"),
        _text("state", 12),
        _big("day"),
        _big("attempts"),
        _big("due"),
        _text("reference", null=True),
        _text("submission", null=True),
        _text("progress", 12, null=True),
        _text("cause", 12, null=True),
        _text("why", null=True),
        _big("created_at"),
        _big("at"),
        sa.PrimaryKeyConstraint("kind", "about", name="pk_payment"),
        sa.CheckConstraint("kind IN ('reward','field')", name=op.f("ck_payment_kind")),
        sa.CheckConstraint("amount >= 0 AND fee >= 0", name=op.f("ck_payment_amount")),
        sa.CheckConstraint(
            "cause IN ('ended','given-up')", name=op.f("ck_payment_cause")
        ),
        sa.CheckConstraint(
            "state = 'reserved' OR state IN ('released', 'due', 'held', 'unknown', 'refused', 'paid')",
            name=op.f("ck_payment_state"),
        ),
    )
    op.create_index(
        "ix_payment_state_payment_kind_payment_about_payment_connector",
        "payment",
        ["state", "kind", "about", "connector"],
    )
    op.create_index(
        "ix_payment_account_id_payment_kind", "payment", ["account_id", "kind"]
    )
    op.create_index("ix_payment_piece", "payment", ["piece"])
    op.create_index("ix_payment_run_id", "payment", ["run_id"])
    op.create_index("ix_payment_reference", "payment", ["reference"])

    op.create_table(
        "payment_event",
        _id("id"),
        _text("kind", 8),
        _big("about"),
        _big("run_id"),
        _text("state", 12),
        _big("amount"),
        _big("fee"),
        _big("at"),
        _text("actor"),
        _text("why", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_payment_event"),
    )
    op.create_index(
        "ix_payment_event_kind_payment_event_about", "payment_event", ["kind", "about"]
    )


def _running() -> None:
    op.create_table(
        "cursor",
        _text("connector", 40),
        _text("value"),
        sa.PrimaryKeyConstraint("connector", name="pk_cursor"),
    )

    op.create_table(
        "lease",
        _id("shard"),
        _text("holder"),
        _big("epoch"),
        _big("leased_until"),
        sa.PrimaryKeyConstraint("shard", name="pk_lease"),
    )

    op.create_table(
        "pause",
        _text("scope", 120),
        _text("reason"),
        _big("at"),
        sa.PrimaryKeyConstraint("scope", name="pk_pause"),
    )

    op.create_table(
        "sign_in_link",
        _text("digest", 64),
        _big("made_at"),
        _big("ends_at"),
        _big("used_at", null=True),
        sa.PrimaryKeyConstraint("digest", name="pk_sign_in_link"),
    )

    op.create_table(
        "operator_session",
        _text("digest", 64),
        _big("opened_at"),
        _big("seen_at"),
        _big("ended_at", null=True),
        sa.PrimaryKeyConstraint("digest", name="pk_operator_session"),
    )

    op.create_table(
        "worker_session",
        _text("digest", 64),
        _big("account_id"),
        _big("invite"),
        _big("opened_at"),
        _big("seen_at"),
        _big("ends_at"),
        sa.PrimaryKeyConstraint("digest", name="pk_worker_session"),
    )
    op.create_index("ix_worker_session_account_id", "worker_session", ["account_id"])

    op.create_table(
        "browser_arrival",
        _text("browser", 64),
        _id("account_id"),
        _big("at"),
        sa.PrimaryKeyConstraint("browser", "account_id", name="pk_browser_arrival"),
    )

    op.create_table(
        "suspect_pair",
        _id("first_id"),
        _id("second_id"),
        _big("noted_at"),
        _big("at"),
        _big("dismissed_at", null=True),
        sa.PrimaryKeyConstraint("first_id", "second_id", name="pk_suspect_pair"),
    )

    op.create_table(
        "webhook_delivery",
        _text("connector", 40),
        _text("call", 64),
        _big("at"),
        sa.PrimaryKeyConstraint("connector", "call", name="pk_webhook_delivery"),
    )

    op.create_table(
        "event",
        _id("id"),
        _big("at"),
        _text("actor"),
        _text("action", 40),
        _text("detail"),
        sa.PrimaryKeyConstraint("id", name="pk_event"),
    )


def _first_rows() -> None:
    op.execute("INSERT INTO policy_lock (id, policy_version) VALUES (1, 0)")
    op.execute(
        "INSERT INTO chain (id, name, seq, head, at, policy_version, sealed_seq)"
        f" VALUES (0, 'system', 0, '{'0' * 64}', 0, 0, 0)"
    )


def _sqlite_guards() -> None:
    for table in APPEND_ONLY:
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )


def _postgres_guards() -> None:
    op.execute(
        "CREATE FUNCTION dispatcher_append_only() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'the table is append-only'; END $$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION dispatcher_append_only()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION dispatcher_append_only()"
        )
