"""The console acts: form, preview, confirmation, the act, and its line in the audit log."""

import asyncio
import csv
import html
import io
import os
import re

import pytest
from httpx2 import ASGITransport, AsyncClient
from starlette.testclient import TestClient

from dispatcher import access
from dispatcher.access import OPERATIONS, ROLES, sessions, users
from dispatcher.model import Quarantine
from dispatcher.store import (
    answers,
    audit_log,
    collecting,
    people,
    records,
    settings,
)
from dispatcher.store import pause as pauses
from dispatcher.surfaces.console.actions import ACTIONS
from dispatcher.surfaces.console.screens import SCREENS
from tests import builders
from tests.integration.console_house import HOST, SAME
from tests.integration.ledger_cases import Case, policy
from tests.integration.test_console import EVIL, PLACES, RULES, text_of


@pytest.fixture
def case(sqlite_store):
    made = Case(sqlite_store)
    made.apply(policy(RULES))
    made.add("inhouse/ann", "inhouse/bob")
    made.load(*((f"key-canary-{n}", "person-canary", n, "abcd") for n in range(3)))
    made.book(("inhouse/ann", "key-canary-0.a key-canary-1.d"))
    return made


def as_role(app, case, clock, *roles) -> TestClient:
    """A browser in which a user of these roles is signed in."""
    name = "-".join(roles)
    now = clock()
    users.add_user(case.store, name, list(roles), now, os.urandom)
    with case.store.write() as tx:
        user = next(one for one in people.users(tx) if one.name == name)
        secret = sessions.open_session(tx, now, os.urandom, user)
    client = TestClient(app, base_url=HOST, client=("127.0.0.1", 5), headers=SAME)
    client.cookies.set("console", secret, domain="127.0.0.1")
    return client


def inputs(page) -> dict[str, str]:
    """What the hidden inputs of the page's own form have."""
    form = page.text[page.text.rindex('<form class="card form"') :]
    found = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form)
    return {name: html.unescape(text) for name, text in found}


def preview(client, action, /, **given):
    page = client.post(f"/do/{action}", data={**given, "step": "preview"})
    assert page.status_code == 200, text_of(page)
    return page


def act(client, action, /, **given):
    return client.post(f"/do/{action}", data=inputs(preview(client, action, **given)))


def lines(case):
    """Lines of acts; who signed in stands before them."""
    with case.store.read() as tx:
        return [
            (one.actor, one.surface, one.operation, one.target, one.reason, one.outcome)
            for one in reversed(audit_log.newest(tx))
            if one.operation != "console.sign-in"
        ]


def paused(case):
    with case.store.read() as tx:
        return dict(pauses.paused(tx))


# -- one act -------------------------------------------------------------------------------


def test_a_form_comes_from_the_document_of_the_api(client):
    page = client.get("/do/pause?connector=inhouse")
    assert "Stop new showings at once" in text_of(page)
    assert re.search(r'name="reason"[^>]* required', page.text)
    assert re.search(r'name="connector" value="inhouse"', page.text)
    assert "Nothing is changed yet" in text_of(page)


def test_a_preview_changes_nothing_and_leaves_no_line(client, case):
    page = preview(client, "pause", reason="token expired")
    assert "Nothing has been changed yet" in text_of(page)
    assert "Scope all" in text_of(page)
    assert paused(case) == {}
    assert lines(case) == []


def test_an_act_changes_and_leaves_the_line_of_its_person(client, case):
    done = act(client, "pause", reason="token expired")
    assert "It was done" in text_of(done)
    assert paused(case)["all"].reason == "token expired"
    ((who, *line),) = lines(case)
    assert re.fullmatch("console:[0-9a-f]{8}", who)
    assert line == ["console", "pause", "", "token expired", "done"]


def test_what_an_operation_refuses_says_why_and_keeps_the_form(client, case):
    page = client.post(
        "/do/pause", data={"reason": "r", "run": "nowhere", "step": "preview"}
    )
    assert page.status_code == 404
    told = text_of(page)
    assert "there is no run 'nowhere'" in told
    assert "Why:" in told
    assert "What helps:" in told
    assert "E004" in told
    assert 'name="run" value="nowhere"' in page.text


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("pause", {"reason": ""}, "Reason: is missing"),
        ("add-workers", {"workers": "no slash"}, "Workers: "),
        ("add-workers", {"workers": ""}, "Workers: is missing"),
        ("retry-messages", {"ids": "one"}, "Ids: "),
        ("invite-workers", {"workers": "inhouse/ann", "days": "9999"}, "Days: "),
        ("block-worker", {"connector": "", "name": ""}, "Connector: "),
    ],
)
def test_what_is_filled_in_wrongly_is_named_and_never_repeated(
    client, name, given, said
):
    page = client.post(f"/do/{name}", data={**given, "step": "preview"})
    assert page.status_code == 422
    assert said in text_of(page)


def test_a_worker_is_blocked_and_let_work_again(client, case):
    name = {"connector": "inhouse", "name": "ann"}
    page = preview(client, "block-worker", **name)
    told = text_of(page)
    assert told.index("Cannot be undone") < told.index("What would change")
    done = act(client, "block-worker", **name)
    assert 'href="/workers/inhouse/ann"' in done.text
    told = text_of(client.get("/workers/inhouse/ann"))
    assert "State blocked" in told
    assert "Unblock" in told
    act(client, "unblock-worker", **name)
    assert "State active" in text_of(client.get("/workers/inhouse/ann"))
    assert [line[2:4] for line in lines(case)] == [
        ("workers.block", "inhouse/ann"),
        ("workers.unblock", "inhouse/ann"),
    ]


def test_a_severe_act_asks_for_its_name(client, case):
    given = {"accounts": "inhouse/ann\ninhouse/bob", "reason": "one payout address"}
    page = preview(client, "merge-workers", **given)
    assert "Type inhouse/ann to go on" in text_of(page)
    refused = client.post("/do/merge-workers", data={**inputs(page), "typed": "ann"})
    assert refused.status_code == 422
    assert "nothing was changed" in text_of(refused)
    assert lines(case) == []
    done = client.post(
        "/do/merge-workers", data={**inputs(refused), "typed": "inhouse/ann"}
    )
    assert "It was done" in text_of(done)
    assert [line[2] for line in lines(case)] == ["workers.merge"]
    assert "One worker with 1 other" in text_of(client.get("/workers/inhouse/ann"))


def test_safety_31_a_link_that_opens_nothing_is_a_line_of_the_chain(app, case):
    client = TestClient(app, base_url=HOST, client=("127.0.0.1", 5), headers=SAME)
    for _ in range(3):
        assert client.post("/login", data={"code": "guessed"}).status_code == 403
    with case.store.read() as tx:
        (line,) = audit_log.newest(tx, operation="console.sign-in")
    assert (line.actor, line.outcome) == ("unknown", "denied")


def test_safety_4_a_merge_asks_for_password_and_code_once_more(app, case, clock):
    """Five minutes after whoever has the session gave them."""
    phrase, passwords = "four lamps over a green harbour", access.Passwords()
    link = users.add_user(case.store, "eve", ["policy-admin"], clock(), os.urandom)
    totp = users.enrolment(case.store, link, clock()).secret
    session = access.enrol(
        case.store, link, phrase, builders.code_at(totp, clock()), clock(),
        passwords=passwords, entropy=os.urandom,
    )  # fmt: skip
    client = TestClient(app, base_url=HOST, client=("127.0.0.1", 5), headers=SAME)
    client.cookies.set("console", session, domain="127.0.0.1")
    given = {"accounts": "inhouse/ann\ninhouse/bob", "reason": "one payout address"}
    assert "once more" not in text_of(preview(client, "merge-workers", **given))
    clock.advance(5 * 60)
    page = preview(client, "merge-workers", **given)
    assert "Your password once more" in text_of(page)
    sent = {**inputs(page), "typed": "inhouse/ann"}
    for wrong in ({}, {"password": phrase, "totp": "000000"}):
        refused = client.post("/do/merge-workers", data=sent | wrong)
        assert refused.status_code == 403
        assert phrase not in refused.text
    assert lines(case) == []
    right = {"password": phrase, "totp": builders.code_at(totp, clock())}
    done = client.post("/do/merge-workers", data=inputs(refused) | sent | right)
    assert "It was done" in text_of(done)
    by_link = TestClient(app, base_url=HOST, client=("127.0.0.1", 5), headers=SAME)
    by_link.post("/login", data={"code": access.make_link(case.store, clock())})
    case.add("inhouse/cat")
    given["accounts"] = "inhouse/ann\ninhouse/cat"
    clock.advance(5 * 60)
    page = preview(by_link, "merge-workers", **given)
    assert "sign in anew" in text_of(page)


def test_what_a_preview_counted_past_a_limit_is_what_is_accepted(client, case):
    case.book(("inhouse/bob", "key-canary-0.b"))
    given = {"accounts": "inhouse/ann\ninhouse/bob", "reason": "one person"}
    page = preview(client, "merge-workers", **given)
    assert "1 set past a limit" in text_of(page)
    sent = {**inputs(page), "typed": "inhouse/ann"}
    assert sent["accept_past"] == "1"
    other = client.post("/do/merge-workers", data={**sent, "accept_past": "0"})
    assert other.status_code == 409
    assert "1 set is past a limit by it" in text_of(other)
    done = client.post("/do/merge-workers", data=sent)
    assert "It was done" in text_of(done)


def test_dead_messages_are_chosen_and_sent_once_more(client, case):
    builders.settle_messages(
        case.store, "dead", account="inhouse/ann", tries=12, error="token expired"
    )
    page = client.get("/queue?state=dead")
    (number,) = re.findall(r'name="ids" value="(\d+)"', page.text)
    form = client.get(f"/do/retry-messages?ids={number}")
    assert f">{number}</textarea>" in form.text
    done = act(client, "retry-messages", ids=number)
    assert "Messages 1" in text_of(done)
    assert "inhouse/ann" in text_of(client.get("/queue?state=ready"))


# -- once, and only from our own page ---------------------------------------------------------


def test_safety_43_the_same_form_sent_in_parallel_acts_once(app, client, case):
    sent = inputs(preview(client, "pause", reason="r"))
    cookie = client.cookies["console"]

    async def send_often():
        here = ASGITransport(app=app, client=("127.0.0.1", 5))
        async with AsyncClient(
            transport=here, base_url=HOST, headers=SAME, cookies={"console": cookie}
        ) as many:
            found = [many.post("/do/pause", data=sent) for _ in range(20)]
            return await asyncio.gather(*found)

    pages = asyncio.run(send_often())
    assert {page.status_code for page in pages} == {200}
    assert all("It was done" in text_of(page) for page in pages)
    assert len(lines(case)) == 1


def test_a_key_of_another_act_is_refused(client, case):
    sent = inputs(preview(client, "pause", reason="r"))
    client.post("/do/pause", data=sent)
    other = client.post("/do/pause", data={**sent, "reason": "another"})
    assert other.status_code == 422
    assert len(lines(case)) == 1


def test_links_of_an_invitation_are_not_kept(client, case, tmp_path):
    given = {"workers": "inhouse/ann", "days": "3"}
    sent = inputs(preview(client, "invite-workers", **given))
    first = client.post("/do/invite-workers", data=sent)
    again = client.post("/do/invite-workers", data=sent)
    assert "#k=" in first.text
    assert again.status_code == 409
    assert "#k=" not in again.text


def test_safety_9_no_other_page_acts(client, case):
    sent = inputs(preview(client, "pause", reason="r"))
    for site in ("cross-site", "same-site", "none"):
        page = client.post("/do/pause", data=sent, headers={"sec-fetch-site": site})
        assert page.status_code == 403
    del client.headers["sec-fetch-site"]
    wrong = {**sent, "form_token": "x"}
    assert client.post("/do/pause", data=wrong).status_code == 403
    assert paused(case) == {}
    assert client.post("/do/pause", data=sent).status_code == 200
    assert "all" in paused(case)


def test_nothing_is_done_by_looking(client, case):
    for action in ACTIONS:
        client.get(f"/do/{action.name}", params={"step": "act", "key": "k"})
    assert lines(case) == []


# -- roles ---------------------------------------------------------------------------------


@pytest.mark.parametrize("role", sorted(ROLES))
def test_safety_5_a_role_sees_and_does_what_its_scopes_permit(app, case, clock, role):
    client = as_role(app, case, clock, role)
    shown = ""
    for screen in SCREENS:
        place = PLACES.get(screen.path, screen.path)
        if place is None:
            continue
        place = place.replace("/x/ann", "/inhouse/ann")
        page = client.get(place)
        may = OPERATIONS[screen.operation] in ROLES[role]
        assert page.status_code == (200 if may else 403), screen.path
        shown = page.text if may else shown
    for screen in SCREENS:
        if screen.listed:
            may = OPERATIONS[screen.operation] in ROLES[role]
            assert (f'<li><a href="{screen.path}"' in shown) == may, screen.path
    for action in ACTIONS:
        may = OPERATIONS[action.operation] in ROLES[role]
        asked = client.get(f"/do/{action.name}")
        sent = client.post(f"/do/{action.name}", data={"step": "act"})  # without a key
        assert (asked.status_code != 403) == may, action.name
        assert (sent.status_code != 403) == may, action.name
    denied = [line for line in lines(case) if line[-1] == "denied"]
    assert len(denied) == len(
        {
            one.operation
            for one in ACTIONS
            if OPERATIONS[one.operation] not in ROLES[role]
        }
    )  # one line a minute of each operation


def test_an_operation_is_shown_to_whoever_began_it(app, case, clock):
    client = as_role(app, case, clock, "viewer")
    assert client.get("/operations/op_of-somebody-else").status_code == 404


# -- tables as files -------------------------------------------------------------------------


def test_safety_16_a_table_is_a_file_at_the_same_address(client, case):
    case.add(f"inhouse/{EVIL}", "inhouse/=1+1")
    reply = client.get("/workers?format=csv&q=inhouse")
    assert reply.headers["content-disposition"] == 'attachment; filename="workers.csv"'
    rows = list(csv.DictReader(io.StringIO(reply.text)))
    assert [row["accounts"] for row in rows] == [
        "inhouse/ann", "inhouse/bob", f"inhouse/{EVIL}", "inhouse/=1+1",
    ]  # fmt: skip
    assert rows[0]["history"] == "0.3333"
    found = client.get("/workers?format=json&sort=-history").json()
    assert found["schema"] == "dispatcher.console-workers/1"
    assert found["items"][0]["accounts"] == "inhouse/ann"
    assert client.get("/workers?format=xml").status_code == 400
    assert client.get("/workers?format=csv&table=other").status_code == 404


def test_a_table_is_sorted_and_filtered_by_its_address(client, case):
    case.add("inhouse/zoe")
    names = lambda reply: re.findall(r'href="/workers/(\S*)">a', reply.text)  # noqa: E731
    assert names(client.get("/workers?sort=-worker"))[0] == "inhouse/zoe"
    assert names(client.get("/workers?q=history>0.3")) == ["inhouse/ann"]
    assert names(client.get("/workers?q=state:blocked")) == []
    assert names(client.get("/workers?q=-state:blocked")) == names(
        client.get("/workers")
    )
    assert client.get("/workers?sort=nothing").status_code == 400


# -- live --------------------------------------------------------------------------------------


def test_a_stream_says_that_the_store_has_moved(case):
    from dispatcher.surfaces.console.live import Live

    async def follow():
        live = Live(case.store, period=0.001)
        first, second = live.read(), live.read()
        assert await anext(first) == await anext(second) == "retry: 2000\n\n"
        waiting = [asyncio.ensure_future(anext(one)) for one in (first, second)]
        while not live._mark:
            await asyncio.sleep(0)
        await asyncio.to_thread(case.book, ("inhouse/bob", "key-canary-2.c"))
        told = await asyncio.gather(*waiting)
        await first.aclose()
        await second.aclose()
        return told, live._task, live._readers

    told, task, readers = asyncio.run(follow())
    assert told == ["event: moved\ndata:\n\n"] * 2
    assert task is None
    assert readers == 0


# -- answers and fields ------------------------------------------------------------------------


def disputed(case, *fields):
    """Let ann and bob answer fields in different ways, until nobody else is asked."""
    for field in fields:
        for who in ("ann", "bob"):
            if (who, field) != ("ann", "key-canary-0.a"):  # she was shown that before
                case.book((f"inhouse/{who}", field))
        builders.dispute(case.store, case.entries[field], "Gout", "flu", at=case.now)


def test_a_conflict_is_shown_side_by_side_and_more_workers_are_asked(client, case):
    disputed(case, "key-canary-0.a")
    page = client.get("/answers")
    assert "In conflict 1" in text_of(page)
    ((name, told),) = re.findall(
        r'name="fields" value="([^"]+)".*?<td [^>]*class="wide ">(.*?)</td>',
        page.text,
        re.S,
    )
    assert re.fullmatch(r"A: a\d+; B: a\d+", told.strip())
    assert "out" not in told
    assert "key-canary" not in page.text
    given = {"fields": name, "extra": "2", "reason": "two readings"}
    assert "Extra showings 2" in text_of(act(client, "unburn-fields", **given))
    assert "No field is in conflict" in text_of(client.get("/answers"))
    assert name in client.get("/fields?state=open").text


def offered(page) -> dict[str, str]:
    """The inputs that each form of a conflict sends along, and its buttons."""
    form = page.text[page.text.index('aria-label="Choose an answer"') :]
    found = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form)
    return {name: html.unescape(text) for name, text in found}


def test_conflicts_are_judged_one_after_the_other_each_by_one_button(app, case, clock):
    """One press a conflict: each decision is acted on, and the next one is shown."""
    disputed(case, "key-canary-0.a", "key-canary-0.c", "key-canary-1.a")
    client = as_role(app, case, clock, "operator", "reviewer")
    assert "3 fields wait" in text_of(client.get("/answers/judge"))
    page = client.post("/answers/judge", data={"reason": "looked", "after": "0"})
    assert "Gout" not in page.text
    sent = offered(page) | {"decision": "choose B"}
    page = client.post("/answers/judge", data=sent)
    assert "decided by you" in text_of(page)
    assert "2 left" in text_of(page)
    client.post("/answers/judge", data=sent)  # pressed twice, it acts once
    for entry, status in (("x", 400), ("9" * 20, 400), ("9" * 19, 200)):
        skipped = {"reason": "looked", "decision": "skip", "entry": entry}
        assert client.post("/answers/judge", data=skipped).status_code == status
    page = client.post("/answers/judge", data=offered(page) | {"decision": "skip"})
    page = client.post("/answers/judge", data=offered(page) | {"decision": "ask"})
    assert "one more worker is asked" in text_of(page)
    assert "1 was skipped" in text_of(page)
    judged = [line for line in lines(case) if line[2] == "answers.judge"]
    assert [(who, how, why, end) for who, how, _, _, why, end in judged] == [
        ("operator-reviewer", "console", "looked", "done")
    ] * 2
    with case.store.read() as tx:
        values = [
            row.value
            for row in answers.filled_in(tx, case.records["key-canary-0"])
            if row.judged_by
        ]
    assert values == [b"flu"]


def test_what_answers_say_is_shown_by_a_line_of_its_own_and_after_a_proof(
    app, case, clock
):
    disputed(case, "key-canary-0.a", "key-canary-0.c")
    client = as_role(app, case, clock, "reviewer")
    begun = {"reason": "looked", "after": "0", "shows": "1"}
    page = client.post("/answers/judge", data=begun)
    assert {"Gout", "flu"} <= set(re.findall(r"fades=\"30\">([A-Za-z]+)<", page.text))
    assert "Ask one more" not in page.text  # it is an operator's
    refused = client.post("/answers/judge", data=offered(page) | {"decision": "ask"})
    assert refused.status_code == 403
    sent = offered(page) | {"decision": "value", "value": "  flu  "}
    assert "decided by you" in text_of(client.post("/answers/judge", data=sent))
    shown = [line[3:5] for line in lines(case) if line[2] == "answers.show"]
    assert {why for _, why in shown} == {"looked"}
    assert len({field for field, _ in shown}) == 2
    clock.advance(seconds=1_000)
    page = client.post("/answers/judge", data=begun)
    assert "Your password once more" in text_of(page)
    assert "flu" not in page.text
    page = client.post("/answers/judge", data=begun | {"password": "wrong"})
    assert page.status_code == 403
    assert "flu" not in page.text


def test_an_image_is_given_once_and_to_whom_it_was_revealed_alone(app, case, clock):
    image = ("key-canary-9", "person-canary", 9, "a")
    case.load(image, shown=b"\x89PNG-canary", media="image/png")
    disputed(case, "key-canary-9.a")
    client = as_role(app, case, clock, "reviewer")
    begun = {"reason": "looked", "after": "0", "shows": "1"}
    (crop,) = re.findall(
        r'src="(/answers/crops/[^"]+)"', client.post("/answers/judge", data=begun).text
    )
    other = as_role(app, case, clock, "operator", "reviewer")
    assert other.get(crop).status_code == 404
    assert client.get(crop).content == b"\x89PNG-canary"
    assert client.get(crop).status_code == 404


def test_refused_answers_are_dismissed_with_a_reason_and_shown_only_by_an_act(
    app, case, clock
):
    client = as_role(app, case, clock, "operator", "reviewer")
    strange = Quarantine(
        connector="inhouse", payload=b"refused-canary", reason="no such task", at=1
    )
    with case.store.write() as tx:
        collecting.add_strange(tx, [strange])
    page = client.get("/answers")
    (number,) = re.findall(r'name="ids" value="(\d+)"', page.text)
    assert "refused-canary" not in page.text
    given = {"ids": number, "reason": "agency's sheet"}
    asked = preview(client, "reveal-answers", **given)
    assert "cannot be tried beforehand: values are shown" in text_of(asked)
    assert "refused-canary" not in asked.text
    shown = client.post("/do/reveal-answers", data=inputs(asked))
    assert "refused-canary" in text_of(shown)
    assert "Shown this once" in text_of(shown)
    assert 'data-fades="30"' in shown.text
    act(client, "dismiss-answers", **given)
    assert "None was refused, or all were looked at" in text_of(client.get("/answers"))
    assert [line[2:] for line in lines(case)] == [
        ("answers.reveal", "", "agency's sheet", "done"),
        ("answers.dismiss", "", "agency's sheet", "done"),
    ]


# -- records, connectors and settings ----------------------------------------------------------


def test_a_record_is_found_by_its_key_and_revealed_for_a_reason(app, case, clock):
    with case.store.write() as tx:
        records.begin_load(tx, 1, "made.csv", "[]", case.now)
    client = as_role(app, case, clock, "data-viewer", "operator")
    found = client.post(
        "/do/find-record", data={"key": "key-canary-0", "step": "preview"}
    )
    (place,) = re.findall(r'href="(/records/r\w+)">Go on', found.text)
    page = client.get(place)
    assert "key-canary" not in found.text + page.text
    told = text_of(page)
    assert "Lineage" in told
    assert re.search(r"a inhouse shown|a – a\d+ inhouse \d+", told)
    assert re.search(r'href="/workers\?q=worker:a\d+"', page.text)
    assert client.get("/records/key-canary-0").status_code == 404
    given = {"record": place.rpartition("/")[2], "reason": "she asked for it"}
    asked = preview(client, "reveal-record", **given)
    assert "key-canary" not in asked.text
    assert "Key key-canary-0" in text_of(
        client.post("/do/reveal-record", data=inputs(asked))
    )
    assert [line[2:] for line in lines(case)] == [
        ("records.reveal", given["record"], "she asked for it", "done")
    ]


def test_the_connectors_page_tells_what_rests_and_what_money_is_left(client, case):
    """The circuit is what the daemon noted, the balance what a market said."""
    rests = settings.CircuitRow(case.now - 1, case.now + 10**12, 4, "slow down")
    with case.store.write() as tx:
        settings.note_circuit(tx, "inhouse", rests)
        settings.note_balance(tx, "inhouse", "GBP:214.10", case.now)
    told = text_of(client.get("/connectors?q=inhouse"))
    assert "degraded" in told
    assert "slow down open" in told
    assert "GBP:214.10" in told
    assert "No run has a budget" in told
    given = {"run": "default", "cap.amount": "100.50", "cap.currency": "GBP"}
    tried = preview(client, "set-budget", **given)
    assert "GBP" in text_of(tried)
    assert "No run has a budget" in text_of(client.get("/connectors"))
    client.post("/do/set-budget", data=inputs(tried))
    page = client.get("/connectors")
    assert "GBP:100.50" in text_of(page)
    (form,) = re.findall(r'href="(/do/set-budget[^"]*)"', page.text)
    filled = client.get(html.unescape(form)).text
    assert re.search(r'name="cap.amount" value="100.50?"', filled)
    sent = {**given, "cap.amount": "80", "fee_percent": "12.5"}
    act(client, "set-budget", **sent)
    assert "12.5 %" in text_of(client.get("/runs/default"))


def test_a_connector_is_disabled_for_a_reason_and_enabled(client):
    act(client, "disable-connector", connector="inhouse", reason="token expired")
    page = client.get("/connectors?q=inhouse")
    assert "disabled" in text_of(page)
    assert "token expired" in text_of(page)
    assert "/do/enable-connector?connector=inhouse" in page.text
    assert "/do/disable-connector?connector=inhouse" not in page.text
    act(client, "enable-connector", connector="inhouse", untested="1")
    assert "token expired" not in client.get("/connectors").text


def test_a_market_is_added_and_its_secret_is_on_no_page(app, case, clock, tmp_path):
    client = as_role(app, case, clock, "admin")
    given = {"name": "crowd", "kind": "turkle", "secret": "canary-word\n" + "6b" * 32}

    def send(**more):
        form = client.get("/do/add-connector")
        return client.post("/do/add-connector", data={**inputs(form), **given, **more})

    wrong = send(settings="url = nowhere")
    assert wrong.status_code == 422
    assert "url = nowhere" in wrong.text
    tried = send(settings="url = https://t.example.org", step="preview")
    assert tried.status_code == 200, text_of(tried)
    assert not (tmp_path / "dispatcher.toml").exists()
    done = send(settings="url = https://t.example.org")
    assert "It was done" in text_of(done)
    for page in (wrong, tried, done):
        assert "canary-word" not in page.text
        assert "6b6b" not in page.text
    kept = (tmp_path / "dispatcher.toml").read_text()
    assert '[connectors.crowd]\nkind = "turkle"\nurl = "https://t.example.org"' in kept
    assert (tmp_path / "crowd.secret").read_text() == given["secret"]
    assert set(paused(case)) == {"connector:crowd"}
    assert [line[2:] for line in lines(case)] == [
        ("connectors.add", "", "", "E003"),
        ("connectors.add", "", "", "done"),
    ]


def test_settings_show_secrets_once_and_let_nobody_in_who_was_put_out(app, case, clock):
    client = as_role(app, case, clock, "admin")
    assert "#k=" in act(client, "add-user", name="bob", roles="viewer").text
    act(client, "set-roles", user="bob", roles="viewer\nreviewer")
    act(client, "disable-user", user="bob")
    page = client.get("/settings?user.q=bob")
    assert "reviewer, viewer disabled" in text_of(page)
    assert "/do/enable-user?user=bob" in page.text
    made = act(client, "make-token", name="loads", scopes="records:write", days="3")
    (secret,) = re.findall(r"<dt>Token</dt><dd>\s*(\S+)", made.text)
    page = client.get("/settings")
    assert secret not in page.text
    assert "loads" in page.text
    act(client, "revoke-token", token="1")
    assert "revoked" in text_of(client.get("/settings"))
    (session,) = re.findall(r'/do/revoke-session\?session=([^"]+)"', page.text)
    act(client, "add-webhook", url="https://example.org/hook", types="connector.down")
    assert "connector.down" in text_of(client.get("/settings/webhooks/1"))
    act(client, "remove-webhook", webhook="1")
    assert client.get("/settings/webhooks/1").status_code == 404
    act(client, "revoke-session", session=session)
    assert client.get("/settings").status_code == 401
