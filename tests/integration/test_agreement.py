"""How far workers agree, and what each takes for what: over the newest answers."""

from __future__ import annotations

import pytest

from dispatcher.core.errors import NotFound
from dispatcher.operations.agreement import agreement
from tests.integration.exchange_house import Exchange
from tests.integration.ledger_cases import Case
from tests.integration.test_assembly import answer


@pytest.fixture
def exchange(store, clock):
    """Twelve records whose c is red for all but cem, who says blue; r1.a disagrees."""
    made = Exchange(Case(store), clock)
    made.workers("ann", "bob", "cem")
    made.case.load(
        ("r1", "p1", 1, "a"), *((f"x{n}", f"q{n}", 1, "c") for n in range(12))
    )
    for n in range(12):
        asks = [(who, f"x{n}.c") for who in ("ann", "bob", "cem")]
        tasks = made.book(*asks, per_message=1).tasks
        for (who, _), task in zip(asks, tasks, strict=True):
            value = "blue" if who == "cem" or n > 8 else "red"
            made.market.give(made.token(task), who, value)
    made.sending().tick(made.epoch)
    made.collecting().tick(made.epoch)
    clock.advance(seconds=60)
    for who, value in (("ann", "Anna-Canary"), ("bob", "Berta-Canary")):
        answer(made, who, "r1.a", value)
    return made


def test_agreement_is_measured_by_field_and_by_kind(exchange):
    found = agreement(exchange.store)
    named = {one.field: one for one in found.fields}
    assert (named["c"].fields, named["c"].answers, named["c"].ask) == (12, 36, "choose")
    assert named["c"].observed == pytest.approx((9 * 1 + 3 * 3) / 36)
    assert named["a"].observed == 0.0
    assert found.fields[0].field == "a"  # the least agreement first
    assert [(one.ask, one.answers) for one in found.kinds] == [
        ("choose", 36),
        ("transcribe", 2),
    ]
    assert "Canary" not in repr(found)


def test_confusions_are_of_declared_values_by_worker_and_of_all(exchange):
    found = agreement(exchange.store)
    assert {one.field for one in found.confusions} == {"c"}
    assert [one.answers for one in found.of("")] == [36]
    each = [one for one in found.confusions if one.worker]
    worst = each[0]  # the one who is right least often stands first
    assert worst.worst is not None
    assert worst.worst[:2] == ("red", "blue")
    assert all(sum(row) == pytest.approx(1) for one in each for row in one.rows)
    (mine,) = agreement(exchange.store, worker="memory/cem").confusions
    assert mine == worst
    with pytest.raises(NotFound):
        agreement(exchange.store, worker="memory/nobody")


def test_only_the_newest_answers_are_looked_at(exchange):
    found = agreement(exchange.store, newest=2)
    assert [(one.field, one.answers) for one in found.fields] == [("a", 2)]


def test_without_answers_nothing_is_said(store):
    Case(store)
    assert agreement(store).fields == agreement(store).confusions == []
