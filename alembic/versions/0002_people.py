"""Add users, tokens, API requests, the audit chain, figures, notices, judgements, servers."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

APPEND_ONLY = ("audit_line",)


def upgrade() -> None:
    _people()
    _audit()
    _requests()
    _figures()
    _notices()
    _judgements()
    _servers()
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


def _people() -> None:
    op.create_table(
        "app_user",
        _id("id"),
        _text("name", 120),
        _text("roles"),
        _text("password", null=True),
        _bytes("totp", null=True),
        _big("totp_step"),
        _text("identity", 64, null=True),
        _big("key_id", null=True),
        _big("made_at"),
        _big("disabled_at", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_app_user"),
        sa.UniqueConstraint("name", name="uq_app_user_name"),
        sa.UniqueConstraint("identity", name="uq_app_user_identity"),
    )
    op.create_table(
        "api_token",
        _id("id"),
        _text("name", 120),
        _text("digest", 64),
        _text("prefix", 20),
        _big("user_id", null=True),
        _text("scopes"),
        _big("made_at"),
        _big("ends_at"),
        _big("used_at", null=True),
        _big("revoked_at", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_token"),
        sa.UniqueConstraint("digest", name="uq_api_token_digest"),
        sa.ForeignKeyConstraint(
            ["user_id"], ["app_user.id"], name="fk_api_token_user_id_app_user"
        ),
    )
    # Links and sessions of before belong to nobody: whoever had the link.
    op.add_column("sign_in_link", _text("purpose", 12, null=True))
    op.add_column("sign_in_link", _big("user_id", null=True))
    op.add_column("operator_session", _big("user_id", null=True))
    op.add_column("operator_session", _big("proven_at", null=True))


def _audit() -> None:
    op.create_table(
        "audit_line",
        _id("seq"),
        _big("at"),
        _text("actor", 140),
        _text("surface", 12),
        _text("operation", 60),
        _text("target"),
        _text("reason"),
        _text("outcome", 12),
        _bytes("hash"),
        sa.PrimaryKeyConstraint("seq", name="pk_audit_line"),
        sa.CheckConstraint("seq >= 1", name=op.f("ck_audit_line_seq")),
    )
    op.create_index("ix_audit_line_actor", "audit_line", ["actor"])
    op.create_index("ix_audit_line_operation", "audit_line", ["operation"])


def _requests() -> None:
    op.create_table(
        "api_request",
        _text("id", 40),
        _text("caller", 200),
        _text("operation", 60),
        _text("key", 255, null=True),
        _text("digest", 64),
        _text("state", 12),
        _text("process", 16),
        _big("status"),
        _bytes("body", null=True),
        _big("started_at"),
        _big("ended_at", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_request"),
        sa.UniqueConstraint("caller", "key", name="uq_api_request_caller_key"),
    )


def _figures() -> None:
    op.create_table(
        "sample",
        _text("measure", 24),
        _id("at"),
        _text("label", 400),
        _big("value"),
        sa.PrimaryKeyConstraint("measure", "at", "label", name="pk_sample"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_answer_at_answer_account_id_answer_valid",
        "answer",
        ["at", "account_id", "valid"],
    )
    for name, table, column, those in (
        ("ix_ledger_line_other", "ledger_line", "chain_id", "kind <> 'exposure'"),
        ("ix_quarantine_waiting", "quarantine", "id", "dismissed_at IS NULL"),
    ):
        where = sa.text(those)
        op.create_index(
            name, table, [column], sqlite_where=where, postgresql_where=where
        )


def _notices() -> None:
    op.create_table(
        "webhook",
        _id("id"),
        _text("url"),
        _text("types"),
        _bytes("secret"),
        _bytes("old_secret", null=True),
        _big("old_until", null=True),
        _big("key_id", null=True),
        _big("made_at"),
        _big("disabled_at", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_webhook"),
    )
    op.create_table(
        "notice",
        _id("id"),
        _text("message", 40),
        _text("type", 40),
        _big("at"),
        _text("data"),
        _big("fanned"),
        sa.PrimaryKeyConstraint("id", name="pk_notice"),
        sa.UniqueConstraint("message", name="uq_notice_message"),
    )
    op.create_index("ix_notice_fanned", "notice", ["fanned"])
    op.create_table(
        "notice_delivery",
        _id("id"),
        _big("notice_id"),
        _big("webhook_id"),
        _text("state", 12),
        _big("attempts"),
        _big("due"),
        _big("status", null=True),
        _text("error", 200, null=True),
        _big("ended_at", null=True),
        sa.PrimaryKeyConstraint("id", name="pk_notice_delivery"),
    )
    op.create_index(
        "ix_notice_delivery_state_notice_delivery_due",
        "notice_delivery",
        ["state", "due"],
    )
    op.create_index(
        "ix_notice_delivery_webhook_id_notice_delivery_id",
        "notice_delivery",
        ["webhook_id", "id"],
    )


def _judgements() -> None:
    op.add_column("result", _text("judged_by", null=True))
    op.create_index(
        "ix_result_conflict",
        "result",
        ["entry_id"],
        sqlite_where=sa.text("state = 'conflict'"),
        postgresql_where=sa.text("state = 'conflict'"),
    )


def _servers() -> None:
    op.add_column("lease", _text("serves", 40, null=True))
    op.create_table(
        "unshipped_piece",
        _id("id"),
        _text("chain", 80),
        _big("chain_id"),
        _big("first"),
        _text("prev", 64),
        _big("last"),
        _text("head", 64),
        _bytes("body"),
        sa.PrimaryKeyConstraint("id", name="pk_unshipped_piece"),
    )


def _sqlite_guards() -> None:
    for table in APPEND_ONLY:
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )


def _postgres_guards() -> None:
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION dispatcher_append_only()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION dispatcher_append_only()"
        )
