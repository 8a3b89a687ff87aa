"""The audit chain: a line for every act that changed something, and for none other."""

import pytest

from dispatcher.access import OPERATIONS, Act
from dispatcher.core.canonical import NO_HASH, line_hash
from dispatcher.core.errors import Conflict, LedgerBroken, NotFound
from dispatcher.core.keys import pseudonym
from dispatcher.store import audit_log, open_store, pause
from dispatcher.surfaces.cli.context import CliContext
from tests import edits
from tests.integration.ledger_cases import PAIR, Case, policy
from tests.unit.dispatcher.surfaces.cli.test_tree import LEAVES, options_of


@pytest.fixture
def act(clock):
    """Makes acts of ann at a moment after each other."""

    def made(operation="pause", **facts):
        clock.advance(1)
        return Act("ann", "command", operation, clock, **facts)

    return made


def lines(store):
    with store.read() as tx:
        return list(audit_log.lines_after(tx))


def pausing(store, scope="all"):
    with store.write() as tx:
        pause.pause(tx, scope, "why", 1)


def failing(store):
    with store.write() as tx:
        pause.pause(tx, "run:a", "why", 1)
        raise NotFound("it is not there")


def test_an_act_leaves_one_line_whatever_number_of_writes_it_takes(store, act):
    one = act(target="run default", reason="lunch")
    acting = store.acting(one)
    pausing(acting)
    pausing(acting, "run:a")
    one.end(store)
    (line,) = lines(store)
    assert (line.seq, line.actor, line.operation) == (1, "ann", "pause")
    assert (line.target, line.reason, line.outcome) == ("run default", "lunch", "done")
    pausing(store, "run:b")  # nobody's act
    assert len(lines(store)) == 1


def test_an_act_that_writes_nothing_itself_has_its_line_at_the_end(store, act):
    one = act()
    assert lines(store.acting(one)) == []
    one.end(store.acting(one))
    assert [line.outcome for line in lines(store)] == ["done"]


def test_an_act_that_fails_half_way_says_so(store, act):
    one = act()
    acting = store.acting(one)
    pausing(acting)
    with pytest.raises(NotFound):
        failing(acting)
    one.end(acting, "E004")
    assert [line.outcome for line in lines(store)] == ["done", "E004"]


def test_what_is_rolled_back_takes_its_line_along(store, act):
    with pytest.raises(NotFound):
        failing(store.acting(act()))
    assert lines(store) == []


def test_a_dry_run_leaves_no_line(store, act):
    one = act()
    acting = store.acting(one)
    acting.undo_writes()
    pausing(acting)
    assert (lines(store), one.lines) == ([], 0)


def test_lines_form_one_chain_with_a_head(store, act):
    for number in range(3):
        pausing(store.acting(act(f"runs.{number}")), f"run:{number}")
    prev = NO_HASH
    for line in lines(store):
        prev = line_hash(prev, audit_log.members_of(line, prev))
        assert line.hash.hex() == prev
    with store.read() as tx:
        assert audit_log.head(tx) == (3, prev)


def test_lines_are_found_by_who_noun_and_time(store, act, clock):
    for operation in ("workers.block", "workers.merge", "pause"):
        pausing(store.acting(act(operation)), f"run:{operation}")
    with store.read() as tx:

        def found(**wanted):
            return [one.operation for one in audit_log.newest(tx, **wanted)]

        assert found() == ["pause", "workers.merge", "workers.block"]
        assert found(operation="workers") == ["workers.merge", "workers.block"]
        assert found(operation="workers.merge") == ["workers.merge"]
        assert found(operation="worker") == []
        assert found(actor="bob") == []
        assert found(since=clock()) == ["pause"]
        assert found(until=clock() - 1_000_000) == ["workers.block"]
        assert found(before=2) == ["workers.block"]
        assert found(limit=1) == ["pause"]


@pytest.mark.parametrize("rewrite", ["audit log, changed", "audit log, deleted"])
def test_safety_36_no_line_is_edited_or_deleted(store, act, rewrite):
    pausing(store.acting(act()))
    with pytest.raises(Conflict, match="refuses to change"), store.write() as tx:
        edits.REWRITES[rewrite](tx)
    assert [line.actor for line in lines(store)] == ["ann"]


def test_an_act_that_books_has_its_line_with_the_booking(store, act):
    case = Case(store)
    case.apply(policy(PAIR))
    case.add("x/1")
    case.load(("r0", "p0", 0, "ab"))
    case.store = store.acting(act("plan.apply"))
    case.book(("x/1", "r0.a"))
    assert [line.operation for line in lines(store)] == ["plan.apply"]


@pytest.mark.parametrize("own", ["sqlite_path", "postgres_own_url"])
@pytest.mark.parametrize("edit", edits.AUDIT_EDITS)
def test_safety_36_an_edited_audit_log_is_found(own, edit, request, act):
    place = str(request.getfixturevalue(own))
    with open_store(place) as store:
        for number in range(3):
            act(f"runs.{number}").end(store)
        with store.read() as tx:
            assert audit_log.check_chain(tx) == audit_log.check_chain(tx, last=1) == 3
        with store.write() as tx, edits.unguarded(tx):
            assert edits.AUDIT_EDITS[edit](tx)
        with store.read() as tx, pytest.raises(LedgerBroken, match="audit log"):
            audit_log.check_chain(tx)
        with store.read() as tx, pytest.raises(LedgerBroken, match="audit log"):
            audit_log.check_chain(tx, last=2)


# -- by command ------------------------------------------------------------------------


def called(command, context, **given):
    """Call a command as its noun does, whatever it would do itself."""
    ctx = command.context_class(command, obj=context)
    ctx.params = given
    command.invoke(ctx)


def test_safety_31_every_command_that_writes_leaves_a_line_and_tried_dry_none(
    sqlite_path, monkeypatch
):
    writing = {
        path: one for path, one in LEAVES.items() if "--dry-run" in options_of(one)
    }
    assert len(writing) > 50
    context = CliContext(store=str(sqlite_path))
    for command in writing.values():
        monkeypatch.setattr(command, "callback", lambda **_: None)
        called(command, context, dry_run=True)
        called(command, context, dry_run=False)
    with open_store(sqlite_path) as store:
        found = [line.operation for line in lines(store)]
    assert found == [path.replace(" ", ".") for path in writing]
    assert set(found) <= OPERATIONS.keys()


def test_a_command_that_fails_leaves_the_code_and_nothing_that_was_typed(
    sqlite_path, monkeypatch
):
    def failing(**_):
        with context.open_store():
            raise NotFound("it is not there")

    context = CliContext(store=str(sqlite_path))
    monkeypatch.setattr(LEAVES["workers block"], "callback", failing)
    with pytest.raises(NotFound):
        called(LEAVES["workers block"], context, dry_run=False, account="Canary")
    with open_store(sqlite_path) as store:
        assert [(one.outcome, one.target) for one in lines(store)] == [("E004", "")]


def test_records_stand_in_the_log_by_their_pseudonyms(sqlite_path, monkeypatch):
    context = CliContext(store=str(sqlite_path))
    monkeypatch.setattr(LEAVES["fields unburn"], "callback", lambda **_: None)
    called(
        LEAVES["fields unburn"],
        context,
        dry_run=False,
        fields=["rx-1.name", "rx-1.disease"],
        reason="asked",
    )
    with open_store(sqlite_path) as store:
        name = pseudonym(store.key("pseudonym-key"), "r", "rx-1")
        (line,) = lines(store)
    assert (line.target, line.reason) == (f"{name}.name {name}.disease", "asked")
