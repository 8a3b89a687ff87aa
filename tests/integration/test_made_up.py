"""Made-up questions on both databases: tests before real fields, gold among them."""

import contextlib
import itertools
import threading

import numpy as np
import pytest

from dispatcher.model import Budget
from dispatcher.stages.serving import (
    ANSWERED_BEFORE,
    Given,
    Present,
    Saved,
    Wrong,
    expire,
    leave,
    stop_by_agreement,
)
from dispatcher.stages.serving.floor import stop_by_gold
from dispatcher.stages.serving.values import DAY, ServingTerms
from dispatcher.store import Store, accounts, gold_questions, money
from dispatcher.store import policies as policy_rows
from dispatcher.store import serving as serving_rows
from policies.answers.validation import Mark
from tests import builders, sql
from tests.integration.serving_house import POLICY, House

ASKED = [("Jo Doe", "Jo Doe"), ("Al Roe", "Al Roe")]
ALWAYS = {"gold": 0.5}


@pytest.fixture
def house(store: Store, clock) -> House:
    return House(store, clock)


def answer(text: str) -> Given:
    return Given({"answer": text})


def planned(house: House, worker: str = "ann", records: int = 1, **values: str):
    """A worker with fields planned in so many records."""
    values = values or {"name": "Ada"}
    entries = [
        entry
        for number in range(records)
        for entry in house.record(
            100 * (house.count("account") + 1) + number, **values
        ).values()
    ]
    who = house.account(worker)
    house.plan((who, entries))
    return who


def marks(house: House, who) -> dict[str, int]:
    """Marks of a worker's made-up questions, by what was shown."""
    with house.store.read() as tx:
        return dict(
            sql.rows(
                tx,
                "SELECT CAST(p.shown AS TEXT), t.correct FROM gold_task t JOIN gold_question p"
                " ON p.id = t.gold_question_id WHERE t.account_id = ?"
                if tx.dialect == "sqlite"
                else "SELECT convert_from(p.shown, 'UTF8'), t.correct FROM gold_task t"
                " JOIN gold_question p ON p.id = t.gold_question_id WHERE t.account_id = ?",
                [who.account_id],
            )
        )


def state_of(house: House, who) -> str:
    return house.ask("SELECT state FROM account WHERE id = ?", who.account_id)


def standing(house: House) -> tuple[str, int]:
    with house.store.read() as tx:
        return tuple(sql.one(tx, "SELECT state, attempt FROM qualification"))


def work(serving, who, *texts: str) -> list[str]:
    """Answer what is shown, one after another; what was shown."""
    shown = []
    for text in texts:
        showing = serving.start(who)
        shown.append(showing.text)
        assert serving.answer(who, showing.token, answer(text)) == Saved()
    return shown


# -- a test before the first field ----------------------------------------------------


def test_the_test_comes_before_the_first_real_field_and_books_nothing(house):
    ann = planned(house)
    house.test_of(1.0, *ASKED)
    serving = house.serving()

    first = serving.start(ann)
    assert first.of_test
    assert first.content == b"Jo Doe"
    assert house.exposures() == house.count("task") == 0
    assert serving.answer(ann, first.token, answer(" Jo  Doe ")) == Saved()
    work(serving, ann, "Al Roe")

    assert standing(house) == ("passed", 1)
    assert house.exposures() == house.count("answer") == 0
    real = serving.start(ann)
    assert (real.content, real.of_test) == (b"Ada", False)
    assert house.exposures() == 1


def test_a_field_without_a_test_is_shown_to_who_failed_another_ones(house):
    ann = planned(house, name="Ada", age="36")
    house.test_of(1.0, *ASKED)
    serving = house.serving(gold=0)
    shown = []
    while (showing := serving.start(ann)) is not None:
        shown.append(showing.text)
        serving.answer(ann, showing.token, answer("0"))

    assert sorted(shown) == ["36", "Al Roe", "Jo Doe"]
    assert standing(house) == ("failed", 1)


def test_a_share_of_right_answers_passes(house):
    ann = planned(house)
    house.test_of(0.5, *ASKED)
    work(house.serving(), ann, "Jo Doe", "wrong")
    assert standing(house) == ("passed", 1)


def test_there_is_one_more_try_after_a_day_and_none_after_that(house, clock):
    ann = planned(house)
    house.test_of(1.0, *ASKED)
    serving = house.serving()
    work(serving, ann, "Jo Doe", "wrong")
    assert serving.start(ann) is None

    clock.now += DAY - 1
    assert serving.start(ann) is None
    clock.now += 1
    assert serving.start(ann).content == b"Jo Doe"
    work(serving, ann, "no", "no")
    assert standing(house) == ("failed", 2)

    clock.now += 30 * DAY
    assert serving.start(ann) is None


def test_the_second_try_may_pass(house, clock):
    ann = planned(house)
    house.test_of(1.0, *ASKED)
    serving = house.serving()
    work(serving, ann, "no", "no")
    clock.now += DAY
    work(serving, ann, "Jo Doe", "Al Roe")
    assert standing(house) == ("passed", 2)
    assert serving.start(ann).content == b"Ada"


def test_what_is_handed_back_in_a_test_is_not_right_and_stays_so(house):
    ann = planned(house)
    house.test_of(0.5, *ASKED)
    serving = house.serving()
    showing = serving.start(ann)
    assert serving.give_back(ann, showing.token)
    assert serving.answer(ann, showing.token, answer("Jo Doe")) == ANSWERED_BEFORE
    assert marks(house, ann) == {"Jo Doe": 0}
    work(serving, ann, "wrong")
    assert standing(house) == ("failed", 1)


def test_a_test_that_was_left_for_days_goes_on_where_it_was(house, clock):
    ann = planned(house)
    house.test_of(1.0, *ASKED)
    serving = house.serving(lease=60)
    serving.start(ann)
    clock.now += 3 * DAY
    expire(house.store, clock)
    assert work(serving, ann, "Jo Doe", "Al Roe") == ["Jo Doe", "Al Roe"]
    assert standing(house) == ("passed", 1)
    assert house.count("gold_task") == 2


def test_who_left_during_a_test_and_is_let_in_again_goes_on(house, clock):
    ann = planned(house)
    house.test_of(1.0, *ASKED)
    serving = house.serving()
    serving.start(ann)
    assert leave(house.store, clock, ann)
    builders.unblock(house.store, "inhouse/ann")
    back = Present(ann.account_id, 2)  # by a new link: theirs ended as they left
    assert work(serving, back, "Jo Doe", "Al Roe") == ["Jo Doe", "Al Roe"]
    assert standing(house) == ("passed", 1)


def test_a_share_is_counted_as_it_is_written(house):
    """0.56 of 25 is 14, though 0.56 * 25 is more in binary."""
    ann = planned(house)
    house.test_of(0.56, *((f"q{n}", f"q{n}") for n in range(25)))
    serving = house.serving()
    for n in range(25):
        showing = serving.start(ann)
        right = showing.text if n < 14 else "wrong"
        assert serving.answer(ann, showing.token, answer(right)) == Saved()
    assert standing(house) == ("passed", 1)


def test_a_mark_is_no_right_answer_unless_it_is_the_right_one(house):
    ann = planned(house)
    house.test_of(1.0, ("(a smudge)", "[illegible]"), ("Al Roe", "Al Roe"))
    serving = house.serving()
    for _ in range(2):
        showing = serving.start(ann)
        serving.answer(ann, showing.token, Given({}, Mark.ILLEGIBLE))
    assert marks(house, ann) == {"(a smudge)": 1, "Al Roe": 0}


def test_what_is_no_answer_is_told_as_for_a_real_field(house):
    ann = planned(house, age="36")
    house.test_of(1.0, ("7", "7"), field="age")
    serving = house.serving()
    showing = serving.start(ann)
    wrong = serving.answer(ann, showing.token, answer("seven"))
    assert isinstance(wrong, Wrong)
    assert wrong.showing.draft == "seven"
    assert marks(house, ann) == {"7": None}
    assert serving.answer(ann, showing.token, answer("7.0")) == Saved()
    assert standing(house) == ("passed", 1)


def test_a_test_set_anew_lets_who_failed_begin_again_and_who_passed_be(house):
    ann, bob = planned(house, "ann"), planned(house, "bob")
    entries = [house.record(n, name="Eve")["name"] for n in (1, 2)]
    house.plan((ann, entries[:1]), (bob, entries[1:]))
    house.test_of(1.0, *ASKED)
    serving = house.serving()
    work(serving, ann, "Jo Doe", "Al Roe")
    work(serving, bob, "no", "no")

    with house.store.write() as tx:
        assert gold_questions.retire(tx, house.fields["name"], gold_questions.TEST, 2)
    house.test_of(1.0, ("Cy Poe", "Cy Poe"))
    assert serving.start(bob).content == b"Cy Poe"
    assert serving.start(ann).content == b"Eve"


def test_a_killed_page_finds_its_question_and_its_draft_again(house, clock):
    ann = planned(house)
    house.test_of(1.0, *ASKED)
    serving = house.serving(lease=60)
    showing = serving.start(ann)
    assert serving.save_draft(ann, showing.token, {"answer": "Jo"})

    again = house.serving(lease=60)  # another process
    assert again.has_task(ann)
    assert again.start(ann).draft == "Jo"
    clock.now += 61_000_000
    expire(house.store, clock)
    assert not again.has_task(ann)
    assert not again.save_draft(ann, showing.token, {"answer": "Jo D"})
    late = again.start(ann)
    assert (late.token, late.draft) == (showing.token, "")
    assert house.count("gold_task") == 1


def test_a_crash_while_a_test_is_marked_leaves_the_question_as_it_was(
    house, monkeypatch
):
    ann = planned(house)
    house.test_of(1.0, ("Jo Doe", "Jo Doe"))
    serving = house.serving()
    showing = serving.start(ann)

    def crash(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gold_questions, "stand", crash)
        with pytest.raises(KeyboardInterrupt):
            serving.answer(ann, showing.token, answer("Jo Doe"))
    assert marks(house, ann) == {"Jo Doe": None}
    assert standing(house) == ("open", 1)
    assert house.serving().answer(ann, showing.token, answer("Jo Doe")) == Saved()
    assert standing(house) == ("passed", 1)


def test_more_time_is_given_as_often_as_for_a_real_field(house, clock):
    ann = planned(house)
    house.test_of(1.0, *ASKED)
    serving = house.serving(lease=60, extensions=1)
    showing = serving.start(ann)
    clock.now += 30_000_000
    assert serving.extend(ann, showing.token).left == 60
    clock.now += 50_000_000
    assert serving.extend(ann, showing.token).left == 40
    clock.now += 41_000_000
    assert serving.extend(ann, showing.token) is None


def test_another_workers_question_is_foreign(house):
    ann = planned(house)
    eve = house.account("eve")
    house.test_of(1.0, *ASKED)
    serving = house.serving()
    showing = serving.start(ann)
    assert serving.answer(eve, showing.token, answer("Jo Doe")) is None
    assert not serving.owns(eve, showing.token)
    assert serving.owns(ann, showing.token)
    assert marks(house, ann) == {"Jo Doe": None}


def test_two_tabs_that_press_start_get_the_same_question(house):
    ann = planned(house)
    house.test_of(1.0, *ASKED)
    servings = [house.serving() for _ in range(4)]
    together(lambda n: servings[n].start(ann), 4)
    assert house.count("gold_task") == 1
    assert house.count("qualification") == 1


def test_two_tabs_that_answer_count_once(house):
    ann = planned(house)
    house.test_of(0.5, *ASKED)
    serving = house.serving()
    token = serving.start(ann).token
    texts = ["Jo Doe", "wrong", "wrong", "wrong"]
    found = together(lambda n: serving.answer(ann, token, answer(texts[n])), 4)
    assert found.count(Saved()) == 1
    assert found.count(ANSWERED_BEFORE) == 3
    work(serving, ann, "Al Roe")
    assert standing(house) == ("passed", 1)
    assert house.count("event", "action = 'test.passed'") == 1


def together(act, count: int) -> list:
    found = [None] * count

    def run(number: int) -> None:
        found[number] = act(number)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# -- gold ------------------------------------------------------------------------------


def gold(house: House, count: int, *, right: str = "") -> None:
    house.made_up("gold", *((f"Gold {n}", right or f"Gold {n}") for n in range(count)))


def test_gold_comes_at_its_rate_books_nothing_and_is_no_answer(house):
    ann = planned(house, records=40)
    gold(house, 40)
    serving = house.serving(gold=0.25)
    shown = []
    while (showing := serving.start(ann)) is not None:
        shown.append(showing.text)
        serving.answer(ann, showing.token, answer(showing.text))

    made_up = [text for text in shown if text.startswith("Gold")]
    assert 5 <= len(made_up) <= 25  # 40 real ones, one in four made up
    assert len(set(made_up)) == len(made_up)
    assert len(shown) - len(made_up) == 40
    assert house.exposures() == house.count("answer") == 40
    assert set(marks(house, ann).values()) == {1}


def test_the_same_seed_mixes_alike(house):
    ann, bob = planned(house, "ann", records=20), planned(house, "bob", records=20)
    gold(house, 20)

    def mixed(who) -> list[bool]:
        ids = [house.record(50 + n * 2 + who.account_id, name="Ada") for n in range(5)]
        house.plan((who, [entry["name"] for entry in ids]))
        serving, kinds = house.serving(gold=0.3), []
        while (showing := serving.start(who)) is not None and len(kinds) < 9:
            kinds.append(showing.text.startswith("Gold"))
            serving.answer(who, showing.token, answer("x"))
        return kinds[:5]

    assert mixed(ann) == mixed(bob)


def test_gold_looks_like_a_real_field(house):
    ann = planned(house, records=30)
    gold(house, 30)
    serving = house.serving(**ALWAYS)
    showings = []
    for _ in range(12):
        showing = serving.start(ann)
        showings.append(showing)
        assert serving.answer(ann, showing.token, answer("x")) == Saved()

    kinds = {showing.text.startswith("Gold") for showing in showings}
    assert kinds == {True, False}
    for one, other in itertools.pairwise(showings):
        assert (one.field, one.media, one.left) == (
            other.field,
            other.media,
            other.left,
        )
        assert len(one.token) == len(other.token) == 32
        assert not one.of_test


@pytest.mark.parametrize("made_up", [True, False])
def test_a_draft_is_kept_to_the_last_moment_gold_or_not(house, clock, made_up):
    ann = planned(house, records=30)
    gold(house, 30)
    serving = house.serving(gold=0.5 if made_up else 0)
    showing = first_gold(house, serving, ann) if made_up else serving.start(ann)
    clock.now += 599_500_000
    assert serving.save_draft(ann, showing.token, {"answer": "x"})
    clock.now += 500_000
    assert not serving.save_draft(ann, showing.token, {"answer": "xy"})


@pytest.mark.parametrize("made_up", [True, False])
@pytest.mark.parametrize(
    "stop",
    [
        lambda store: builders.move_account(store, "inhouse/ann", "stopped"),
        builders.pause,
        lambda store: builders.pause(store, "connector:inhouse"),
    ],
    ids=["stopped", "all is paused", "the connector is paused"],
)
def test_what_ran_out_is_not_given_back_under_a_stop(house, clock, made_up, stop):
    ann = planned(house, records=30)
    gold(house, 30)
    serving = house.serving(gold=0.5 if made_up else 0)
    _ = first_gold(house, serving, ann) if made_up else serving.start(ann)
    clock.now += 601_000_000
    stop(house.store)
    assert serving.start(ann) is None


def test_gold_of_a_field_that_is_sent_no_more_blocks_nobody(house, clock):
    ann = planned(house, records=5, name="Ada", age="36")
    gold(house, 30)
    serving = house.serving(**ALWAYS)
    for _ in range(9):
        showing = serving.start(ann)
        if showing.text.startswith("Gold"):
            break
        assert serving.answer(ann, showing.token, answer("36")) == Saved()
    changed = POLICY.replace("name    = {", "name    = { send = false, ")
    with house.store.write() as tx:
        policy_rows.lock_policy_exclusive(tx)
        policy_rows.put_policy(tx, 2, "small", changed.encode(), "1" * 64, 2)
        left = serving_rows.planned_entries(tx, 1, ann.account_id)
    house.plan((ann, np.frombuffer(left, "<i8")), version=2)
    clock.now += 601_000_000
    showing = serving.start(ann)
    assert showing is not None
    assert showing.field.name == "age"


def test_gold_is_never_shown_where_no_real_field_could_be(house):
    ann = house.account("ann")
    house.plan((ann, []))
    gold(house, 5)
    serving = house.serving(**ALWAYS)
    assert [serving.start(ann) for _ in range(8)] == [None] * 8


def test_gold_is_shown_to_as_many_adversaries_as_a_real_field_may_be(house):
    """t = 3 in this policy: the fourth worker never sees it."""
    gold(house, 1)
    for name in ("ann", "bob", "cat", "dan"):
        who = planned(house, name, records=8)
        serving = house.serving(**ALWAYS)
        work(serving, who, *["x"] * 8)
    assert house.count("gold_task") == 3


def test_workers_at_once_do_not_push_gold_over_its_showings(house, monkeypatch):
    """t = 3, and two have seen it: of two more who count at once one gets it."""
    (only,) = house.made_up("gold", ("Gold", "Gold"))
    people = [planned(house, f"w{n}", records=2) for n in range(4)]
    with house.store.write() as tx:
        tx.insert_many(
            "gold_task",
            ("id", "gold_question_id", "account_id", "state", "created_at", "attempt"),
            [(10**12 + w.account_id, only, w.account_id, "answered", 1, 0)
             for w in people[:2]],
        )  # fmt: skip
    meet, counted = threading.Barrier(2), gold_questions.adversaries

    def counts(tx, ids):
        found = counted(tx, ids)
        with contextlib.suppress(threading.BrokenBarrierError):
            meet.wait(0.3)
        return found

    monkeypatch.setattr(gold_questions, "adversaries", counts)
    made_up = [house.serving()._made_up for _ in people]
    rng = np.random.default_rng(1)
    together(lambda n: made_up[n].gold(people[2 + n], house.fields["name"], 1, rng), 2)
    assert house.count("gold_task") == 3


def test_two_accounts_of_one_worker_never_get_the_same_gold(house):
    gold(house, 1)
    ann, too = planned(house, "ann", records=8), planned(house, "too", records=8)
    with house.store.write() as tx:
        accounts.end_adversary(tx, 2, 1)
    for who in (ann, too):
        ids = [
            house.record(10 * who.account_id + n, name="A")["name"] for n in range(8)
        ]
        house.plan((who, ids))
        work(house.serving(**ALWAYS), who, *["x"] * 8)
    assert house.count("gold_task") == 1


def test_gold_handed_back_is_neither_right_nor_wrong(house):
    ann = planned(house, records=9)
    gold(house, 9)
    serving = house.serving(**ALWAYS)
    for _ in range(9):
        showing = serving.start(ann)
        assert serving.recuse(ann, showing.token)
    assert set(marks(house, ann).values()) == {None}


def test_one_tab_with_gold_and_one_with_a_real_field_are_never_both(house):
    ann = planned(house, records=30)
    gold(house, 30)
    for _ in range(6):
        servings = [house.serving(gold=n / 8) for n in range(4)]
        together(lambda n, made=servings: made[n].start(ann), 4)
        real = house.count("task", "state = 'shown'")
        made_up = house.count("gold_task", "state = 'shown'")
        assert real + made_up == 1
        servings[0].give_back(ann, servings[0].in_hand(ann).token)


@pytest.mark.parametrize(("limit", "wait"), [("per_hour", 3600), ("per_day", 86_400)])
def test_when_room_is_again_tells_nothing_of_gold(store, clock, limit, wait):
    """Each second task is gold here; room comes by the age of any task."""
    house = House(
        store, clock, POLICY + f'\n[capacity]\n"inhouse/*" = {{ {limit} = 4 }}'
    )
    ann = planned(house, records=30)
    gold(house, 30)
    serving = house.serving(**ALWAYS)
    for _ in range(4):
        work(serving, ann, "x")
        clock.now += 60_000_000
    assert house.count("gold_task") not in (0, 4)
    assert serving.start(ann) is None
    clock.now += (wait - 240) * 1_000_000
    for _ in range(4):
        work(serving, ann, "x")
        assert serving.start(ann) is None
        clock.now += 60_000_000


# -- the pay of gold -------------------------------------------------------------------


def budget(house: House, cap: int = 10**9) -> None:
    with house.store.write() as tx:
        money.put_budget(tx, Budget(run_id=1, currency="GBP", cap=cap, bonus=100))


def payments(house: House, made_up: str = "gold_task") -> list[str]:
    with house.store.read() as tx:
        return [
            row[0]
            for row in sql.rows(
                tx, f"SELECT p.state FROM payment p JOIN {made_up} t ON t.id = p.about"
            )
        ]


def first_gold(house: House, serving, who):
    """Start until gold is shown; real fields are answered."""
    while True:
        showing = serving.start(who)
        if showing.text.startswith("Gold"):
            return showing
        serving.answer(who, showing.token, answer("x"))


def test_gold_earns_what_a_real_field_earns(house):
    ann = planned(house, records=30)
    gold(house, 9)
    budget(house)
    serving = house.serving(**ALWAYS)
    showing = first_gold(house, serving, ann)
    assert payments(house) == ["reserved"]
    serving.answer(ann, showing.token, answer("wrong"))
    assert payments(house) == ["due"]
    assert house.ask("SELECT taken FROM budget") == 100 * house.count("payment")


def test_gold_handed_back_gives_its_money_back_and_takes_it_again_if_answered(house):
    ann = planned(house, records=30)
    gold(house, 9)
    budget(house)
    serving = house.serving(**ALWAYS)
    showing = first_gold(house, serving, ann)
    serving.give_back(ann, showing.token)
    assert payments(house) == ["released"]
    serving.answer(ann, showing.token, answer("x"))
    assert payments(house) == ["due"]


def test_gold_that_nobody_answers_gives_its_money_back_after_a_day(house, clock):
    ann = planned(house, records=30)
    gold(house, 9)
    budget(house)
    first_gold(house, house.serving(**ALWAYS), ann)
    clock.now += DAY
    expire(house.store, clock)
    assert payments(house) == ["reserved"]
    clock.now += 1
    expire(house.store, clock)
    assert payments(house) == ["released"]


def test_where_the_budget_is_used_up_there_is_no_gold_either(house):
    ann = planned(house, records=30)
    gold(house, 30)
    budget(house, cap=500)
    serving = house.serving(**ALWAYS)
    while (showing := serving.start(ann)) is not None:
        serving.answer(ann, showing.token, answer("x"))
    assert house.count("payment") == 5
    assert house.count("task") + house.count("gold_task") == 5


def test_who_works_on_a_paid_piece_is_asked_no_gold_where_fields_earn(house):
    ann = planned(house, records=8)
    gold(house, 8)
    budget(house)
    piece = money.PaymentRow("reward", 7, 1, ann.account_id, "inhouse", None, 1, 0)
    with house.store.write() as tx:
        purse = money.lock_budgets(tx, [1])[1]
        assert money.reserve(tx, purse, [piece], now=1, actor="daemon")
    work(house.serving(**ALWAYS), ann, *["x"] * 8)
    assert house.count("gold_task") == 0


# -- the floor -------------------------------------------------------------------------


def poor(house: House, answers: int, floor_after: int = 5):
    """A worker who answers gold wrongly, so many times."""
    ann = planned(house, records=60)
    gold(house, 60)
    serving = house.serving(gold=0.5, floor=0.6, floor_after=floor_after)
    while house.count("gold_task", "correct = 0") < answers:
        showing = serving.start(ann)
        if showing is None:
            break
        serving.answer(ann, showing.token, answer("wrong"))
    return ann, serving


def test_below_the_floor_nothing_new_is_given(house):
    ann, serving = poor(house, 5)
    assert state_of(house, ann) == "stopped"
    assert serving.start(ann) is None
    assert house.count("event", "action = 'account.stopped'") == 1


def test_before_so_many_answers_nobody_is_stopped(house):
    ann, serving = poor(house, 4)
    assert state_of(house, ann) == "active"
    assert serving.start(ann) is not None


def test_gold_that_ran_out_is_no_wrong_answer(house, clock):
    """Who was called away from the screen has told nothing about how well they read."""
    ann = planned(house, records=60)
    gold(house, 60)
    serving = house.serving(gold=0.5, lease=60, floor=0.75, floor_after=1)
    for _ in range(3):
        first_gold(house, serving, ann)
        clock.advance(seconds=61)
        expire(house.store, clock)
        assert state_of(house, ann) == "active"
    assert set(marks(house, ann).values()) == {None}
    showing = first_gold(house, serving, ann)
    serving.answer(ann, showing.token, answer("wrong"))  # this one is
    assert state_of(house, ann) == "stopped"


def test_what_a_stopped_worker_holds_may_still_be_answered(house):
    ann = planned(house)
    serving = house.serving()
    showing = serving.start(ann)
    builders.move_account(house.store, "inhouse/ann", "stopped")
    assert serving.start(ann).token == showing.token
    assert serving.answer(ann, showing.token, answer("Ada")) == Saved()
    assert serving.start(ann) is None


def test_agreement_below_the_floor_stops_after_so_many_answers(house, clock):
    ann = planned(house, records=3)
    serving = house.serving(gold=0)
    terms = ServingTerms(floor=0.6, floor_after=3)
    work(serving, ann, "x", "y")
    builders.rate(house.store, "inhouse/ann", 0.5)
    assert stop_by_agreement(house.store, clock, terms) == 0
    work(serving, ann, "z")
    assert stop_by_agreement(house.store, clock, terms) == 1
    assert stop_by_agreement(house.store, clock, terms) == 0
    assert state_of(house, ann) == "stopped"


def test_without_a_floor_nobody_is_stopped(house, clock):
    ann, _ = poor(house, 5, floor_after=100)
    with house.store.write() as tx:
        assert not stop_by_gold(tx, ann.account_id, ServingTerms(floor_after=1), 1)
    assert stop_by_agreement(house.store, clock, ServingTerms(floor_after=1)) == 0
