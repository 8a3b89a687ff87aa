"""Workers choose among kinds of work, on both databases; what is shown stays the gate's.

What is offered tells nothing of what a worker was refused: it is the same for all.
"""

import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from dispatcher.model import Budget
from dispatcher.operations.status import status
from dispatcher.stages.planning import Planning
from dispatcher.stages.serving import Given, ServingTerms, task_assignment
from dispatcher.store import lease, money
from dispatcher.surfaces.cli.status import lay_out
from dispatcher.surfaces.taskpage import PageSettings, task_app
from tests import builders
from tests.integration.serving_house import House
from tests.integration.test_same_waits import Waits
from tests.integration.test_taskpage import _plain, arrived, page_of, token_of

TWO_SETS = """\
version = 1
name = "two sets"

[budget]
t = 1

[entity.rx]
key = "rx_id"

[entity.rx.fields]
name    = { ask = "transcribe" }
disease = { ask = "transcribe" }
age     = { ask = "number" }
born    = { ask = "transcribe" }
ok      = { ask = "transcribe" }

[property.first]
of = ["name", "disease", "age"]

[property.second]
of = ["age", "born", "ok"]
"""


@pytest.fixture
def house(store, clock) -> House:
    return House(store, clock)


def choices(serving, who) -> list[str]:
    return [card.field.name for card in serving.choices(who)]


def pick(house, serving, who, name: str):
    """Choose a kind and answer what is shown; its text, or None."""
    shown = serving.start(who, house.fields[name])
    if shown is None:
        return None
    serving.answer(who, shown.token, Given({"answer": shown.text}))
    return shown.text


def page(house, rng, **terms):
    return task_app(
        house.store,
        {"inhouse": house.market()},
        clock=house.clock,
        rng=rng,
        terms=ServingTerms(**{"apart": 0, "gold": 0, "choose": 3, **terms}),
        settings=PageSettings(neutral=0),
    )


def kinds(response) -> dict[str, str]:
    """What a page offers: the text of each button, with the name of its kind."""
    found = re.findall(
        r'name="kind" value="([\w-]+)" aria.*?<span[^>]*>(.*?)</span>', response.text
    )
    return {text: name for name, text in found}


# -- what is offered -------------------------------------------------------------------


def test_nothing_is_offered_unless_the_settings_say_so(house):
    ann = house.account("ann")
    house.plan((ann, list(house.record(1, name="Ada").values())))
    assert choices(house.serving(), ann) == []
    assert choices(house.serving(choose=3), ann) == ["name"]


def test_so_many_kinds_are_drawn_and_each_is_drawn_sooner_or_later(house):
    ann = house.account("ann")
    values = {"name": "Ada", "age": 36, "born": "1971-01-01", "ok": "x"}
    house.plan((ann, list(house.record(1, **values).values())))
    serving = house.serving(choose=2)
    drawn = [choices(serving, ann) for _ in range(40)]
    assert {len(found) for found in drawn} == {2}
    assert {name for found in drawn for name in found} == set(values)
    assert house.exposures() == house.count("task") == 0


def test_a_card_tells_pay_and_time_and_nothing_of_a_record(house, rng, clock):
    ann, bob = house.account("ann"), house.account("bob")
    records = [house.record(n, name=f"Secret {n}")["name"] for n in range(1, 6)]
    house.plan((ann, records[:3]), (bob, records[3:]))
    serving = house.serving(choose=3)
    for _ in range(3):
        shown = serving.start(ann)
        clock.advance(8)
        serving.answer(ann, shown.token, Given({"answer": "x"}))
    with house.store.write() as tx:
        money.put_budget(tx, Budget(run_id=1, currency="EUR", cap=10**6, bonus=50_000))
    (card,) = serving.choices(bob)
    assert (card.pay, card.seconds) == (("EUR 0.05",), 8.0)
    text = arrived(page(house, rng), house, "bob").get("/").text
    assert "EUR 0.05 for one" in text
    assert "about 8 seconds" in text
    assert "Secret" not in text


def test_offers_are_the_same_for_whom_all_is_refused_and_whom_nothing(house):
    """They come from the plan and from chance: equal chance, equal offers.

    ann is shown every name, so that each disease is refused to her; bob nothing.
    """
    ann, bob = house.account("ann"), house.account("bob")
    records = [house.record(n, name=f"N{n}", disease="flu", age=n) for n in range(1, 4)]
    everything = [entry for record in records for entry in record.values()]
    house.plan((ann, everything), (bob, everything))

    def offered(who) -> list[list[str]]:
        serving = house.serving(choose=2)  # its chance begins alike
        return [choices(serving, who) for _ in range(4)]

    first, serving = offered(ann), house.serving(choose=2, gold=0)
    for _ in records:
        assert pick(house, serving, ann, "name")
        assert offered(ann) == offered(bob) == first
    assert serving.start(ann, house.fields["disease"]) is None  # a refusal
    assert serving.start(ann, house.fields["name"]) is None  # none is left
    assert offered(ann) == offered(bob) == first
    assert {name for drawn in first for name in drawn} == {"name", "disease", "age"}


def test_a_field_whose_test_was_not_passed_is_not_offered_to_that_worker(house):
    ann, bob = house.account("ann"), house.account("bob")
    entries = list(house.record(1, name="Ada", age=36).values())
    house.plan((ann, entries), (bob, entries))
    house.test_of(1.0, ("Jo", "Jo"))
    serving = house.serving(choose=3)
    shown = serving.start(ann, house.fields["name"])
    assert shown.of_test
    serving.answer(ann, shown.token, Given({"answer": "wrong"}))
    assert (choices(serving, ann), choices(serving, bob)) == (["age"], ["name", "age"])


# -- what is chosen --------------------------------------------------------------------


def test_what_is_shown_is_of_the_kind_that_was_chosen(house):
    ann, bob = house.account("ann"), house.account("bob")
    records = [house.record(n, name=f"N{n}", age=n, ok="x") for n in range(1, 5)]
    own = [entry for record in records[:2] for entry in record.values()]
    others = [entry for record in records[2:] for entry in record.values()]
    house.plan((ann, own), (bob, others))
    serving = house.serving(choose=3, patience=900)
    found = [pick(house, serving, ann, "age") for _ in range(5)]
    # her own first; then those that were planned for bob, who has not come
    assert set(found[:2]) == {"1", "2"}
    assert set(found[2:4]) == {"3", "4"}
    assert found[4] is None
    assert pick(house, serving, bob, "age") is None
    assert pick(house, serving, bob, "name") in {"N3", "N4"}


def test_a_choice_looks_up_few_of_many_planned(house, monkeypatch):
    ann = house.account("ann")
    ids = [house.record(n, name=f"N{n}", age=n) for n in range(1, 40)]
    house.plan((ann, [entry for record in ids for entry in record.values()]))
    looked_up = []
    entry_rows = task_assignment.rows.entry_rows
    monkeypatch.setattr(
        task_assignment.rows,
        "entry_rows",
        lambda tx, ids: looked_up.append(len(ids)) or entry_rows(tx, ids),
    )
    assert house.serving(choose=3).start(ann, house.fields["age"]) is not None
    assert looked_up == [task_assignment.FIRST]


def test_another_plan_offers_its_own_kinds_and_looks_up_only_what_is_new(
    house, monkeypatch
):
    ann = house.account("ann")
    one = house.record(1, name="Ada", age=36)
    house.plan((ann, list(one.values())))
    looked_up = []
    fields_of = task_assignment.rows.fields_of
    monkeypatch.setattr(
        task_assignment.rows,
        "fields_of",
        lambda tx, ids: looked_up.append(ids) or fields_of(tx, ids),
    )
    serving = house.serving(choose=3, gold=0)
    assert choices(serving, ann) == ["name", "age"]
    two = house.record(2, ok="x")
    house.plan((ann, [one["age"], two["ok"]]))
    assert choices(serving, ann) == ["age", "ok"]
    assert looked_up == [list(one.values()), [two["ok"]]]
    assert pick(house, serving, ann, "age") == "36"
    assert pick(house, serving, ann, "name") is None  # by that plan nobody gets it


def test_who_has_a_task_in_hand_gets_that_one_whatever_they_choose(house, rng):
    """Two tabs: each shows two kinds, and one task is booked."""
    ann = house.account("ann")
    house.plan((ann, list(house.record(1, name="Ada", age=36).values())))
    client = arrived(page(house, rng), house, "ann")
    tab, other = client.get("/"), client.get("/")
    name, age = kinds(tab), kinds(other)
    first = client.post(
        "/start", data={"kind": name["Name: type exactly what you see"]}
    )
    second = client.post("/start", data={"kind": age["Age: type the number you see"]})
    assert token_of(first) == token_of(second)
    assert house.exposures() == 1


def test_who_was_slower_gets_another_of_the_kind(house):
    """Two workers choose the same kind at once: nobody is told of the race."""
    workers = [house.account(name) for name in ("ann", "bob")]
    ages = [house.record(n, name=f"N{n}", age=n)["age"] for n in (1, 2)]
    house.plan(*((who, ages) for who in workers))
    desks = [house.serving(choose=3, gold=0) for _ in workers]  # their chance is alike
    with ThreadPoolExecutor(2) as pool:
        shown = list(
            pool.map(lambda d, w: d.start(w, house.fields["age"]), desks, workers)
        )
    assert {showing.text for showing in shown} == {"1", "2"}


def test_a_field_that_is_unsafe_for_this_worker_is_passed_over_for_another_of_the_kind(
    house,
):
    ann = house.account("ann")
    ill = {"N1": "flu", "N2": "gout"}
    records = [
        house.record(n, name=name, disease=disease)
        for n, (name, disease) in enumerate(ill.items(), 1)
    ]
    house.plan((ann, [entry for record in records for entry in record.values()]))
    serving = house.serving(choose=3, gold=0)
    name = pick(house, serving, ann, "name")
    others = next(disease for person, disease in ill.items() if person != name)
    assert pick(house, serving, ann, "disease") == others
    assert pick(house, serving, ann, "disease") is None
    assert pick(house, serving, ann, "name") is None


def test_safety_6_refused_forged_finished_and_paused_look_and_wait_alike(
    house, rng, tmp_path, monkeypatch
):
    ann = house.account("ann")
    entries = house.record(1, name="Ada", disease="flu", age=36)
    house.plan((ann, list(entries.values())))
    client = arrived(page(house, rng), house, "ann")
    home = client.get("/")
    by_text = kinds(home)
    waits = Waits(house.store, tmp_path / "shipped", monkeypatch)
    client.post("/start", data={"kind": by_text["Name: type exactly what you see"]})
    client.post(f"/task/{house.token(1)}/answer", data={"answer": "Ada"})
    pages, waited = set(), set()

    def choose(name: str) -> None:
        with waits.of() as counts:
            response = client.post("/start", data={"kind": name})
        waited.add(tuple(counts))
        pages.add((response.status_code, _plain(response.text)))

    choose(by_text["Which?"])  # refused: she knows the name
    choose(by_text["Name: type exactly what you see"])  # finished
    choose("forged")
    choose("\u00fc" * 400)
    other = browser_of_another(house, rng)
    choose(other["Age: type the number you see"])  # of another session
    builders.pause(house.store)
    choose(by_text["Age: type the number you see"])
    assert len(pages) == 1
    assert len(waited) == 1
    assert house.exposures() == 1


def browser_of_another(house, rng) -> dict[str, str]:
    house.account("bob")
    return kinds(arrived(page(house, rng), house, "bob").get("/"))


def test_a_worker_goes_on_with_a_kind_until_they_choose_again(house, rng):
    ann = house.account("ann")
    records = [house.record(n, name=f"N{n}", age=n) for n in range(1, 6)]
    house.plan((ann, [entry for record in records for entry in record.values()]))
    client = arrived(page(house, rng), house, "ann")
    shown = client.post("/start", data={"kind": kinds(client.get("/"))[AGE]})
    for _ in range(2):
        kind = re.search(r'name="kind" value="([\w-]+)"', shown.text)[1]
        form = {"answer": "1", "outcome": "answered", "then": "next", "kind": kind}
        shown = client.post(f"/task/{token_of(shown)}/answer", data=form)
        assert (page_of(shown), AGE in shown.text) == ("task", True)
    wrong = form | {"answer": "none", "choose": "yes"}
    shown = client.post(f"/task/{token_of(shown)}/answer", data=wrong)
    assert re.search(r'name="choose" value="yes" checked', shown.text)
    after = client.post(
        f"/task/{token_of(shown)}/answer", data=form | {"choose": "yes"}
    )
    assert (page_of(after), set(kinds(after))) == ("ready", {AGE, NAME})


AGE = "Age: type the number you see"
NAME = "Name: type exactly what you see"


# -- what stays true -------------------------------------------------------------------


def test_no_set_is_complete_however_workers_choose(house, rng):
    workers = [house.account(name) for name in ("ann", "bob", "cat", "dan")]
    records = [house.record(n, name=f"N{n}", disease="flu", age=n) for n in range(1, 6)]
    everything = [entry for record in records for entry in record.values()]
    house.plan(*((who, everything) for who in workers))
    serving = house.serving(choose=3, gold=0)
    held = []
    for _ in range(36):
        who, name = workers[rng.integers(4)], rng.choice(["name", "disease", "age"])
        shown = serving.start(who, house.fields[name])
        if shown is None:
            continue
        assert shown.field.name == name
        if rng.random() < 0.3:
            serving.give_back(who, shown.token)
        else:
            serving.answer(who, shown.token, Given({"answer": shown.text}))
        entry = house.ask("SELECT entry_id FROM task WHERE id = ?", shown.task_id)
        held.append((who.account_id, entry))
    assert len(held) == len(set(held)) == house.exposures() > 10
    assert not any(
        {(who.account_id, record["name"]), (who.account_id, record["disease"])}
        <= set(held)
        for who, record in itertools.product(workers, records)
    )


def test_who_chooses_can_leave_a_field_without_a_worker_and_status_says_from_when_not(
    store, clock
):
    """{name, disease, age} and {age, born, ok}, two workers, each field once.

    Were workers given what we choose, half a leak expected would prove that all can be
    shown. When they choose, ann takes two of the first set and bob two of the second,
    and age is refused to both; with three workers it never is.
    """
    house = House(store, clock, TWO_SETS)
    ann, bob = house.account("ann"), house.account("bob")
    house.record(1, name="N", disease="D", age=36, born="B", ok="O")
    planning = Planning(store, clock, choosing=True)
    with store.write() as tx:
        epoch = lease.take(tx, lease.SHARD, "test", clock(), clock() + 10**9)
    planning.tick(epoch)
    serving = house.serving(choose=3, gold=0)

    def says() -> tuple[int, int, bool, bool]:
        planning.count_safe_workers()
        found = status(store, clock())
        safe, line = found.safe_workers, lay_out(found)
        needs = any("left without a worker" in said for said in found.needs_you)
        return safe.needed, safe.present, needs, "the plan in force places" in line

    assert says() == (3, 2, True, False)
    for who, names in ((ann, ("name", "disease")), (bob, ("born", "ok"))):
        for name in names:
            assert pick(house, serving, who, name) is not None
    assert serving.start(ann, house.fields["age"]) is None
    assert serving.start(bob, house.fields["age"]) is None
    assert house.exposures() == 4
    cat = house.account("cat")
    assert says()[2] is False
    assert pick(house, serving, cat, "age") == "36"
