"""Screens of the console that show what was decided: runs, plans, rules, policy, audit."""

import re

import pytest

from tests.integration.ledger_cases import Case, policy
from tests.integration.test_console import RULES, text_of
from tests.integration.test_console_acts import as_role, inputs, preview
from tests.patience import until


@pytest.fixture
def case(sqlite_store):
    made = Case(sqlite_store)
    made.apply(policy(RULES))
    made.add("inhouse/ann", "inhouse/bob", "inhouse/cy", "inhouse/di")
    made.load(*((f"key-canary-{n}", "person-canary", n, "abcd") for n in range(3)))
    made.book(("inhouse/ann", "key-canary-0.a key-canary-0.c key-canary-1.d"))
    return made


def done(client, action, **given):
    """The page of an operation that goes without a preview, when it has ended."""
    form = client.get(f"/do/{action}")
    page = client.post(f"/do/{action}", data={**inputs(form), **given})
    assert "/operations/op_" in str(page.url), text_of(page)
    until(lambda: "is being worked on" not in client.get(page.url).text, "it has ended")
    return client.get(page.url)


# -- runs and plans ------------------------------------------------------------------------


def test_a_plan_is_made_looked_at_applied_and_compared(client):
    assert "Nothing is planned" in text_of(client.get("/runs"))
    made = done(client, "draft-plan", seed="3", prefer="utility")
    plan = re.search(r'href="(/plans/\d+)"', made.text)[1]
    page = text_of(client.get(plan))
    assert "draft" in page
    assert "Sensitive sets" in page
    assert f"Plan {plan[-1]} waits for your decision" in text_of(client.get("/runs"))

    done(client, "draft-plan", seed="4")
    rows = client.get("/runs?format=json&table=plans").json()["items"]
    assert [(row["plan"], row["held"], row["workers"]) for row in rows] == [
        (2, 0, 4), (1, 0, 4),
    ]  # fmt: skip
    asked = preview(client, "apply-plan", plan="2")
    assert "stays in the ledger for good" in text_of(asked)
    assert "Nothing is" not in text_of(client.get("/runs"))
    client.post("/do/apply-plan", data=inputs(asked))
    assert "applied" in text_of(client.get("/plans/2"))
    compared = client.get("/plans/compare?one=1&other=2&format=json").json()["items"]
    showings = next(row for row in compared if row["measure"] == "Showings")
    assert showings["change"] == showings["other"] - showings["one"]
    assert client.get("/plans/compare?one=1").status_code == 400
    assert client.get("/plans/99").status_code == 404


def test_a_run_says_how_far_it_is_and_whether_it_is_paused(client):
    (row,) = client.get("/runs?format=json&table=runs").json()["items"]
    assert (row["run"], row["state"], row["records"], row["fields"], row["done"]) == (
        "default", "open", 3, 12, 0,
    )  # fmt: skip
    asked = preview(client, "pause", reason="token expired", run="default")
    client.post("/do/pause", data=inputs(asked))
    page = text_of(client.get("/runs/default"))
    assert "paused token expired" in page
    assert "No budget is set" in page
    assert client.get("/runs/none").status_code == 404


def test_a_frontier_is_drawn_where_it_was_swept_and_beside_the_plans(client):
    page = done(client, "sweep-frontier", points="3", time_limit="5")
    assert page.text.count("<svg") >= 3
    assert "Workers needed" in text_of(client.get("/runs"))


# -- rules ---------------------------------------------------------------------------------


def test_a_rule_leads_to_its_nearest_sets_and_a_set_to_who_could_complete_it(
    client, case
):
    page = client.get("/rules/who-what")
    assert "a + b" in text_of(page)
    (row,) = client.get("/rules/who-what?format=json").json()["items"]
    assert (row["worker"], row["left"], row["f"]) == ("a1", 1, "0")
    found = client.get(f"/rules/who-what/{row['set']}")
    told = text_of(found)
    assert "1 worker could reach the limit next: a1 with b" in told
    assert "key-canary" not in found.text
    ladder = client.get(f"/rules/who-what/{row['set']}?format=json&table=ladder").json()
    assert [(one["field"], one["a1"]) for one in ladder["items"]] == [
        ("a", "seen"), ("b", "refused"),
    ]  # fmt: skip
    case.book(("inhouse/bob", "key-canary-0.b"))
    ladder = client.get(f"/rules/who-what/{row['set']}?format=json&table=ladder").json()
    assert [(one["shown"], one["a2"]) for one in ladder["items"]] == [
        (1, "refused"), (1, "seen"),
    ]  # fmt: skip


def test_the_sets_of_a_person_span_records(client):
    (row,) = client.get("/rules/history?format=json").json()["items"]
    assert (row["worker"], row["f"], row["left"]) == ("a1", "1/2", 1)
    address = f"/rules/history/{row['set']}?format=json&table=ladder"
    records = {one["record"] for one in client.get(address).json()["items"]}
    assert len(records) == 3
    assert client.get("/rules/none").status_code == 404
    assert client.get("/rules/history/s-nobody").status_code == 404


# -- policy --------------------------------------------------------------------------------


def test_a_draft_is_checked_in_place_compared_and_put_in_force(client):
    looser = policy(RULES.replace("tau = 0.75", "tau = 1.0")).decode()
    page = text_of(client.post("/policy/draft", data={"source": looser}))
    assert "In 1 part workers could see more than before" in page
    assert "rule history" in page
    assert "tau 0.75 -> 1" in page
    assert "CSV" not in page  # its rows are at no address
    wrong = looser.replace("version = 1", "versoin = 1")
    page = client.post("/policy/draft", data={"source": wrong})
    assert "cannot be put in force" in text_of(page)
    assert "2:1" in text_of(page)
    assert "apply-policy" not in page.text

    asked = preview(client, "apply-policy", source=looser, reason="looser")
    assert "Version 2" in text_of(asked)
    (name,) = re.findall(r"Type <code>([^<]+)</code>", asked.text)
    assert client.post("/do/apply-policy", data=inputs(asked)).status_code == 422
    client.post("/do/apply-policy", data=inputs(asked) | {"typed": name})
    versions = client.get("/policy?format=json&table=versions").json()["items"]
    assert [(row["version"], row["state"]) for row in versions] == [
        (2, "in force"), (1, "replaced"),
    ]  # fmt: skip
    page = text_of(client.get("/policy/2"))
    assert "rule history" in page
    assert "tau = 1.0" in page


def test_a_policy_file_is_uploaded_and_checked_like_what_is_typed(client):
    looser = policy(RULES.replace("tau = 0.75", "tau = 1.0"))
    sent = {"source": ("policy.toml", b"\xef\xbb\xbf" + looser)}
    page = client.post("/policy/draft", files=sent)
    assert "In 1 part workers could see more than before" in text_of(page)
    assert 'formaction="/do/apply-policy"' in page.text
    latin = {"source": ("policy.toml", b'name = "\xe9"')}
    assert client.post("/policy/draft", files=latin).status_code == 400
    two = [("source", ("a", b"x")), ("source", ("b", b"x"))]
    assert client.post("/policy/draft", files=two).status_code == 400
    assert client.post("/do/pause", files=sent).status_code == 400  # it takes none


def test_the_playground_says_by_which_rule(client):
    given = {"seen": "a", "following": "b"}
    page = text_of(client.post("/policy/playground", data=given))
    assert "Deny" in page
    assert "b, after a: who-what: f = 1 >= tau = 1" in page
    page = client.post(
        "/policy/playground",
        data={"worker": "inhouse/ann", "field": "key-canary-0.b"},
    )
    assert "Deny" in text_of(page)
    assert "who-what" in text_of(page)
    page = client.post(
        "/policy/playground", data={"worker": "inhouse/bob", "field": "key-canary-0.b"}
    )
    assert "Allow" in text_of(page)
    unknown = client.post("/policy/playground", data={"seen": "z", "following": "b"})
    assert "there is no field z" in text_of(unknown)


def test_who_may_not_write_the_policy_gets_no_way_to_apply_it(app, case, clock):
    client = as_role(app, case, clock, "viewer")
    page = client.post("/policy/draft", data={"source": policy(RULES).decode()})
    assert "It is valid" in text_of(page)
    assert "/do/apply-policy" not in page.text
    other = {"sec-fetch-site": "cross-site"}
    assert client.post("/policy/draft", data={}, headers=other).status_code == 403


# -- audit ---------------------------------------------------------------------------------


def test_the_ledger_is_verified_and_its_evidence_fetched_once(app, case, clock):
    client = as_role(app, case, clock, "privacy-officer")
    assert "NOT YET Nobody has checked this ledger" in text_of(client.get("/audit"))
    page = done(client, "verify-ledger")
    assert "Ok yes" in text_of(page)
    told = text_of(client.get("/audit"))
    assert "VERIFIED Every line and seal followed from the one before" in told
    page = done(client, "export-evidence")
    address = re.search(r'href="(/operations/op_\w+/file)"', page.text)[1]
    bundle = client.get(address)
    assert bundle.content[:2] == b"PK"
    assert 'filename="evidence.zip"' in bundle.headers["content-disposition"]
    assert client.get(address).status_code == 404


def test_the_audit_log_is_filtered_by_its_address(app, client, case, clock):
    for reason in ("first", "second"):
        client.post("/do/pause", data=inputs(preview(client, "pause", reason=reason)))
        client.post("/do/resume", data=inputs(preview(client, "resume")))
    officer = as_role(app, case, clock, "privacy-officer")
    found = officer.get("/audit?operation=pause&format=json&table=acts").json()
    assert [row["reason"] for row in found["items"]] == ["second", "first"]
    assert {row["outcome"] for row in found["items"]} == {"done"}
    found = officer.get("/audit?actor=nobody&format=json&table=acts").json()
    assert found["items"] == []
    events = officer.get("/audit/events?format=json").json()["items"]
    assert "policy.activated" in {row["action"] for row in events}
    page = client.get("/audit")  # an operator sees the ledger, and not who did what
    assert page.status_code == 200
    assert "Audit log" not in page.text
    assert client.get("/audit/events").status_code == 403
