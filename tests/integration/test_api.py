"""The REST API: who gets in, what each address answers, and what never leaves."""

import asyncio
import io
import json
import re
import threading
import zipfile
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from httpx2 import ASGITransport, AsyncClient
from starlette.testclient import TestClient

from dispatcher import access
from dispatcher.access import OPERATIONS, ROLES, authenticate_token
from dispatcher.access.roles import MACHINE, NOT_FOR_TOKENS
from dispatcher.client import ApiError, Client
from dispatcher.core.errors import (
    PAGES,
    AnotherLeads,
    NotShipped,
    StaleLease,
    StoreEdited,
    StoreLocked,
    StoreUnreachable,
    StoreUnusable,
)
from dispatcher.core.rate_limit import Rate
from dispatcher.operations import (
    ledger,
    people,
    policies,
    queue,
    records,
    runs,
    workers,
)
from dispatcher.operations.sampling import Sampler
from dispatcher.store import api_requests, audit_log, events, lease, notices
from dispatcher.surfaces.api import app, content, documents, evidence
from dispatcher.surfaces.api.app import UPLOADS_OF_ONE
from dispatcher.surfaces.api.requests import FILES_OF_ONE, WAITING_OF_ONE
from dispatcher.surfaces.api.routes import ROUTES
from policies.document import parse
from tests import builders, sql
from tests.integration import api_house
from tests.integration.api_house import BASE, CANARIES, LOCAL, POLICY

HOUR = 3600 * 1_000_000
READS = [route for route in ROUTES if route.method == "GET"]
POSTS = [route for route in ROUTES if route.method != "GET"]
WRITES = [route for route in POSTS if route.writes]

LINES = b'{"id": "new-1", "person": "p", "when": "2026-01-01", "a": "x", "b": "y"}\n'
PATHS = {
    "run": "default",
    "record": "r0",
    "connector": "inhouse",
    "name": "ann",
    "plan": "1",
    "version": "1",
    "payment": "reward-1",
    "field": "a",
    "entry": "r0.a",
    "subject": "s0",
    "operation": "op_0",
    "token": "4711",
    "user": "ann",
    "session": "0123456789ab",
    "webhook": "4711",
    "delivery": "1",
    "rule": "a-b",
    "unit": "r0",
}
BODIES = {
    "pause": {"reason": "a test"},
    "resume": {},
    "find_record": {"key": "key-canary-0"},
    "unburn_fields": {"fields": ["key-canary-0.a"], "extra": 1, "reason": "a test"},
    "explain_field": {"field": "key-canary-1.a", "worker": "inhouse/bob"},
    "set_budget": {"cap": {"amount": "12.50", "currency": "GBP"}},
    "begin_pilot": {"records": 1},
    "accept_pilot": None,
    "add_workers": {"workers": ["inhouse/new"]},
    "invite_workers": {"workers": ["inhouse/bob"]},
    "merge_workers": {"accounts": ["inhouse/ann", "inhouse/bob"], "reason": "a test"},
    "distinguish_workers": {
        "first": "inhouse/ann", "second": "inhouse/bob", "reason": "a test",
    },
    "block_worker": None,
    "unblock_worker": None,
    "apply_plan": None,
    "enable_connector": {"untested": True},
    "disable_connector": {"reason": "a test"},
    "retry_messages": {},
    "withdraw_messages": {"ids": [1]},
    "reveal_answers": {"ids": [1], "reason": "a test"},
    "show_answers": {"reason": "a test"},
    "judge_field": {"decision": "unreadable", "reason": "a test"},
    "dismiss_answers": {"reason": "a test"},
    "approve_payments": {"payments": ["reward-1"], "reason": "a test"},
    "refuse_payments": {"payments": ["reward-1"], "reason": "a test"},
    "settle_payments": {"payments": ["reward-1"], "reason": "a test"},
    "drop_questions": {"field": "a", "purpose": "gold"},
    "preview_records": LINES,
    "load_records": LINES,
    "purge_records": {"older_than_days": 36_500},
    "export_run": {"reason": "a test"},
    "draft_plan": {"time_limit": 0.5},
    "sweep_frontier": {"points": 2, "time_limit": 0.5},
    "check_policy": {"source": POLICY.decode()},
    "test_policy": {"source": POLICY.decode()},
    "compare_policy": {"source": POLICY.decode()},
    "plan_policy": {"source": POLICY.decode(), "time_limit": 0.5},
    "apply_policy": {"source": POLICY.decode()},
    "add_connector": {"name": "second", "settings": {"kind": "folder", "spool": "s2"}},
    "set_secret": {"secret": "a secret"},
    "test_connector": None,
    "reconcile_connector": {},
    "add_gold": b'{"value": "x", "answer": "y"}\n',
    "set_test": b'{"value": "x", "answer": "y"}\n',
    "verify_ledger": {},
    "prove_showings": {"about": "key-canary-0.a"},
    "export_evidence": None,
    "find_subject": {"key": "person-canary-0"},
    "report_subject": {},
    "erase_subject": {"confirm": "s0"},
    "create_backup": None,
    "verify_backups": None,
    "make_token": {"name": "t", "scopes": ["status:read"]},
    "revoke_token": None,
    "reveal_record": {"reason": "a test"},
    "export_plan": None,
    "ask_policy": {"source": POLICY.decode(), "seen": ["a"], "following": "b"},
    "draw_policy": {"time_limit": 0.5},
    "suggest_policy": LINES,
    "verify_evidence": b"no bundle",
    "prune_backups": {"keep": 3},
    "add_user": {"name": "eve", "roles": ["viewer"]},
    "set_roles": {"roles": ["viewer"]},
    "disable_user": None,
    "enable_user": None,
    "reset_user": None,
    "revoke_session": None,
    "remove_webhook": None,
    "add_webhook": {"url": "https://hooks.example.org/d"},
    "rotate_webhook": None,
    "try_webhook": None,
    "redeliver_notice": None,
}  # fmt: skip
"""A body that each write takes; None: none, bytes: a file."""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def house(request, tmp_path_factory):
    """A store that the tests of this module share."""
    with api_house.opened(request, tmp_path_factory.mktemp("api")) as made:
        yield made


def name_of(route) -> str:
    return route.act.__name__


def url_of(route) -> str:
    path = re.sub(r"\{(\w+)(:path)?\}", lambda m: PATHS[m[1]], route.path)
    return BASE + path


def call(house, route, token="all", **query):
    headers = {"if-none-match": "*"} if route.guards else {}
    if name_of(route) == "set_test":
        query["share"] = "0.5"
    return house.client(token).request(
        route.method, url_of(route), params=query, **sent(route, headers)
    )


def sent(route, headers=()):
    """The body of a write, as a client is told to send it."""
    body = BODIES.get(name_of(route))
    if isinstance(body, bytes):
        return {
            "content": body,
            "headers": {"content-type": next(iter(route.takes)), **dict(headers)},
        }
    return {"headers": dict(headers)} | ({"json": body} if body is not None else {})


@contextmanager
def unchanged(house, *but):
    """Nothing of the store is changed by what is done inside, but for some tables."""
    house.case.now += 61_000_000
    house.client().get(f"{BASE}/runs")  # what was denied before is noted by now
    before = contents(house, but)
    yield
    assert contents(house, but) == before


def contents(house, but=()):
    """All rows of all tables that acts change; what the API remembers is its own."""
    with house.store.read() as tx:
        return {
            name: sorted(map(repr, sql.rows(tx, f"SELECT * FROM {name}")))
            for name in tx.reflected().tables
            if name not in ("alembic_version", "id_block", "api_request", *but)
        }


def problem(response, status, code=None):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found = response.json()
    assert found["status"] == status
    assert found["fix"]
    assert found["instance"] == response.headers.get("x-request-id", found["instance"])
    if code is not None:
        assert found["code"] == code
    assert found["type"] == f"{BASE}/errors/{found['code']}"
    return found


# -- the contract of every address ---------------------------------------------------------


def test_every_write_has_a_body_in_these_tests():
    assert {name_of(route) for route in POSTS} == BODIES.keys()
    assert len({name_of(route) for route in ROUTES}) == len(ROUTES)


NO_ADDRESS = {
    "schema": "GET /openapi.json describes the documents of the API",
    "users.invite": "the first admin has nobody to ask: a command of the machine",
}
"""Operations that have no address, but for those of the machine, and why."""


def test_every_operation_has_an_address_or_a_reason_why_not():
    reached = {route.operation for route in ROUTES}
    others = {one for one, scope in OPERATIONS.items() if scope != MACHINE}
    assert others - reached == NO_ADDRESS.keys()
    assert reached <= others


def test_safety_5_every_address_needs_a_token_and_its_permission(house):
    client, bare = house.client("nothing"), house.client(None)
    for route in ROUTES:
        asked = sent(route)
        problem(bare.request(route.method, url_of(route), **asked), 401)
        found = problem(client.request(route.method, url_of(route), **asked), 403)
        assert route.operation in found["detail"]


def test_safety_5_each_role_reaches_what_the_table_gives_it_and_nothing_else(house):
    """Tokens as people make them, with the scopes of each role that may have one."""
    for role, scopes in ROLES.items():
        wanted = scopes - NOT_FOR_TOKENS
        made = people.make_token(house.workspace, house.store, role, wanted, days=1)
        found = authenticate_token(house.store, made.secret, house.case.now)
        house.tokens[role] = found
        client = house.client(role)
        for route in ROUTES:
            allowed = OPERATIONS[route.operation] in wanted
            assert found.may(route.operation) == allowed
            if not allowed and role in ("loader", "reviewer"):
                answer = client.request(route.method, url_of(route), **sent(route))
                problem(answer, 403)
    with house.store.read() as tx:
        (denied,) = audit_log.newest(tx, actor=found.name, limit=1)
    assert denied.outcome == "denied"


def test_safety_44_denials_that_repeat_are_one_line_a_minute_with_their_count(house):
    house.tokens["curious"] = api_house.Caller("token:curious", frozenset())
    for _ in range(4):
        problem(house.client("curious").get(f"{BASE}/backups"), 403)

    def lines():
        with house.store.read() as tx:
            found = audit_log.newest(tx, actor="token:curious", limit=10)
        return [(one.operation, one.outcome, one.reason) for one in found]

    assert lines() == [("backup.list", "denied", "")]
    house.case.now += 61_000_000
    house.client().get(f"{BASE}/runs")
    assert lines()[0] == ("backup.list", "denied", "3 more within a minute")
    assert len(lines()) == 2


def test_a_store_that_cannot_be_used_is_503_and_when_to_come_again(house, monkeypatch):
    for error in (AnotherLeads, StaleLease, NotShipped, StoreEdited, StoreLocked,
                  StoreUnreachable, StoreUnusable):  # fmt: skip

        def fail(*_, kind=error):
            raise kind("it cannot be used", why="a test", fix="wait")

        with monkeypatch.context() as broken:
            broken.setattr(workers, "list_accounts", fail)
            answer = house.client().get(f"{BASE}/workers")
        problem(answer, 503, error.code)
        assert int(answer.headers["retry-after"]) > 0


def test_a_database_that_is_away_is_503_until_it_is_back(house, request):
    if request.node.callspec.params["house"] != "postgresql":
        pytest.skip("a file is not away")
    cluster = request.getfixturevalue("postgres_cluster")
    allow = "ALTER DATABASE api_house ALLOW_CONNECTIONS "
    try:
        cluster.administer(allow + "false")
        cluster.administer(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = 'api_house'"
        )
        answer = house.client().get(f"{BASE}/runs")
        found = problem(answer, 503, "E105")
        assert "socket" not in str(found), "its address is nobody's business"
        assert answer.headers["retry-after"]
    finally:
        cluster.administer(allow + "true")
    assert house.client().get(f"{BASE}/runs").status_code == 200


def test_a_client_that_reads_the_ledger_slowly_holds_no_transaction(house, monkeypatch):
    read, export = [], ledger.export

    def lines(store):
        yield from export(store)
        read.append("all")

    monkeypatch.setattr(ledger, "export", lines)
    response = evidence.export_ledger(house)  # sends nothing yet
    assert read == ["all"]
    sent = house.client().get(f"{BASE}/ledger").text
    assert sent == "".join(export(house.store))

    async def body():
        return b"".join([part async for part in response.body_iterator]).decode()

    assert asyncio.run(body()) == sent


def test_safety_9_a_session_of_the_console_opens_no_address(house):
    """No browser adds a token by itself, so no other site can make one act."""
    link = access.make_link(house.store, house.case.tick())
    session = access.sign_in_by_link(house.store, link, house.case.tick())
    for name in ("console", "__Host-console"):
        bare = house.client(None)
        headers = {"cookie": f"{name}={session}"}
        problem(bare.post(f"{BASE}/pause", json={"reason": "x"}, headers=headers), 401)
        problem(bare.get(f"{BASE}/status", headers=headers), 401)
    assert access.authenticate_session(house.store, session, house.case.now)
    access.sign_out(house.store, session, house.case.tick())


def test_safety_30_a_fault_is_a_problem_without_its_words(house, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("Canary")

    monkeypatch.setattr(queue, "retry", fail)
    answer = house.client().post(f"{BASE}/queue:retry", json={})
    found = problem(answer, 500)
    assert "Canary" not in answer.text
    assert "Traceback" not in answer.text
    assert "RuntimeError" not in found["detail"]
    assert "Canary" not in caplog.text


def test_no_token_makes_or_ends_another(house):
    """ASVS 8.2: whoever steals one cannot outlive it."""
    most = ROLES["admin"] - NOT_FOR_TOKENS
    made = people.make_token(house.workspace, house.store, "most", most, days=1)
    house.tokens["most"] = authenticate_token(house.store, made.secret, house.case.now)
    client = house.client("most")
    asked = {"name": "t", "scopes": ["status:read"]}
    problem(client.post(f"{BASE}/tokens", json=asked), 403)
    problem(client.post(f"{BASE}/tokens/{made.id}:revoke"), 403)
    listed = client.get(f"{BASE}/tokens").json()
    assert made.prefix in [one["prefix"] for one in listed]
    assert made.secret not in str(listed)


def test_safety_29_reads_show_no_value_no_key_and_are_kept_by_nobody(house):
    PATHS["record"] = house.record("key-canary-0")
    for route in READS:
        if name_of(route) == "follow_events":
            continue  # a stream without end
        response = call(house, route)
        assert response.status_code in (200, 404, 409), (route.path, response.text)
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in response.headers
        assert not [word for word in CANARIES if word in response.text], route.path
        if "etag" in response.headers:
            again = house.client().get(
                url_of(route), headers={"if-none-match": response.headers["etag"]}
            )
            assert again.status_code in (200, 304)


def test_a_dry_run_says_what_an_act_would_do_and_changes_nothing(house):
    done = set()
    with unchanged(house):
        for route in WRITES:
            if name_of(route) == "test_connector":
                continue  # asks the outside, and changes nothing
            response = call(house, route, dry_run="true")
            name = name_of(route)
            assert response.status_code in (200, 202, 404, 409, 412, 422), response.text
            text = response.text
            if response.status_code == 202:
                house.shared.requests.wait()
                text = house.client().get(response.headers["location"]).text
                response = None if '"failed"' in text else response
            assert not [word for word in CANARIES if word in text], name
            if response is not None and response.status_code < 300:
                assert response.headers["dry-run"] == "true"
                done.add(name)
            else:
                print(name, text)
    assert done >= {"pause", "unburn_fields", "block_worker", "set_budget"}


def test_safety_6_what_is_unknown_is_not_found(house):
    client = house.client()
    for path in (
        "/runs/none", "/runs/none/budget", "/runs/none/pilot", "/records/none",
        "/workers/inhouse/none", "/plans/4711", "/policies/4711", "/connectors/none",
        "/payments/reward-4711", "/nowhere",
    ):  # fmt: skip
        found = problem(client.get(BASE + path), 404)
        assert "canary" not in str(found)


def test_every_error_has_a_page_that_resolves(house):
    client = house.client(None)
    for code in PAGES:
        assert client.get(f"{BASE}/errors/{code}").text.startswith(code)
    assert client.get(f"{BASE}/errors/E999").status_code == 404


# -- lists -----------------------------------------------------------------------------------


def test_lists_come_in_parts_that_join(house):
    client = house.client()
    for path, count in (("/records", 3), ("/fields", 12), ("/workers", 3)):
        whole = client.get(BASE + path, params={"limit": 500}).json()
        assert len(whole["items"]) >= count
        assert whole["next_cursor"] is None
        parts, cursor = [], None
        while True:
            given = {"limit": 2} | ({"cursor": cursor} if cursor else {})
            part = client.get(BASE + path, params=given).json()
            parts += part["items"]
            cursor = part["next_cursor"]
            if cursor is None:
                break
        assert parts == whole["items"]


def test_a_list_is_narrowed_by_a_filter_and_cut_to_the_members_asked_for(house):
    client = house.client()
    whole = client.get(f"{BASE}/fields", params={"limit": 500}).json()["items"]
    asked = {"filter": "shown>0 -state:answered", "fields": "id,shown"}
    parts, cursor = [], {}
    while cursor is not None:
        part = client.get(f"{BASE}/fields", params=asked | {"limit": 1} | cursor).json()
        assert len(part["items"]) <= 1
        parts += part["items"]
        cursor = {"cursor": part["next_cursor"]} if part["next_cursor"] else None
    assert parts == [
        {"id": one["id"], "shown": one["shown"]}
        for one in whole
        if one["shown"] > 0 and one["state"] != "answered"
    ]
    assert parts
    shown = client.get(f"{BASE}/status", params={"fields": "epoch,leader"}).json()
    assert shown.keys() == {"epoch", "leader"}
    users = client.get(f"{BASE}/connector-kinds", params={"fields": "name"}).json()
    assert all(one.keys() == {"name"} for one in users)
    said = problem(client.get(f"{BASE}/fields", params={"fields": "value"}), 422)
    assert "open_tasks" in said["fix"]
    said = problem(client.get(f"{BASE}/fields", params={"filter": "stat:open"}), 422)
    assert "open_tasks" in said["fix"]


def test_safety_44_each_answer_says_how_often_a_token_may_come(house):
    speaking = house.speaking
    try:
        house.open(requests=Rate(per_minute=1, burst=2))
        answers = [house.client().get(f"{BASE}/runs") for _ in range(3)]
        others = house.client("nothing").get(f"{BASE}/runs")
    finally:
        house.speaking = speaking
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert others.status_code == 403
    assert answers[0].headers["ratelimit-policy"] == '"token";q=2;w=120'
    assert answers[0].headers["ratelimit"] == '"token";r=1;t=60'
    assert answers[2].headers["ratelimit"].startswith('"token";r=0;')
    assert int(answers[2].headers["retry-after"]) > 0
    assert "ratelimit" in others.headers


def test_the_reference_is_a_page_of_ours_alone(house):
    page = house.client(None).get(f"{BASE}/docs")
    assert page.status_code == 200
    assert "<script" not in page.text
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page.text)
    nonce = re.search(r'<style nonce="([^"]+)">', page.text)[1]
    assert f"style-src 'nonce-{nonce}'" in page.headers["content-security-policy"]
    for route in ROUTES:
        path = re.sub(r":path}", "}", BASE + route.path)
        assert f"{route.method} {path}</code>" in page.text


def test_a_cursor_that_was_forged_or_is_of_another_list_is_refused(house):
    client = house.client()
    first = client.get(f"{BASE}/records", params={"limit": 1}).json()
    cursor = first["next_cursor"]
    payload, _, signature = cursor.partition(".")
    for forged in (cursor[:-1], f"IngxIg.{signature}", f"{payload}x.{signature}", "x"):
        given = {"limit": 1, "cursor": forged}
        problem(client.get(f"{BASE}/records", params=given), 400)
    for path, more in (("/fields", {}), ("/records", {"state": "open"})):
        given = {"limit": 1, "cursor": cursor, **more}
        problem(client.get(BASE + path, params=given), 400)
    house.tokens["other"] = api_house.Caller("token:other")
    given = {"limit": 1, "cursor": cursor}
    problem(house.client("other").get(f"{BASE}/records", params=given), 400)


# -- what a request may look like ------------------------------------------------------------


ODD = (
    (b"{", 400),
    (b'{"reason": "x", "reason": "y"}', 400),
    (b'{"reason": NaN}', 400),
    (b'{"reason": ' + b"1" * 41 + b"}", 400),
    (b'{"reason": 1e999}', 400),
    (b"[" * 65 + b"]" * 65, 400),
    (b'{"reason": "\xff"}', 400),
    (b'{"reason": "' + b"x" * (1 << 20) + b'"}', 413),
    (b'{"reason": 1}', 422),
    (b'{"reason": ""}', 422),
    (b'{"reason": "x", "unknown": 1}', 422),
    (b'{"reason": "\\u0000"}', 400),
    (b'{"reason": "\\ud800"}', 400),
    (b'{"reason": "two\\nlines"}', 422),
    (b'["reason"]', 422),
    (b"", 400),
)


def test_safety_20_a_body_that_is_not_as_described_is_refused(house):
    headers = {"content-type": "application/json"}
    client = house.client()
    with unchanged(house, "audit_line", "setting"):  # an act that failed stands there
        for body, status in ODD:
            answer = client.post(f"{BASE}/pause", content=body, headers=headers)
            assert "x" * 100 not in str(problem(answer, status))


def test_a_problem_points_to_what_is_wrong_without_quoting_it(house):
    body = {"workers": ["inhouse/ann", "Secret-Canary"], "accept_past": -1, "more": 1}
    found = problem(house.client().post(f"{BASE}/workers", json=body), 422, "E003")
    pointers = {one["pointer"] for one in found["errors"]}
    assert pointers == {"/workers/1", "/accept_past", "/more"}
    assert "Secret-Canary" not in str(found)


def test_parameters_compressed_bodies_and_other_media_are_refused(house):
    client = house.client()
    url = f"{BASE}/records"
    problem(client.get(url, params={"limt": 1}), 422)
    problem(client.get(f"{url}?limit=1&limit=2"), 422)
    problem(client.get(f"{url}?run=%00"), 400)
    problem(client.get(f"{url}/%00"), 400)
    problem(client.get(url, params={"limit": 501}), 422)
    for text in ("0", "1", "yes", "True", ""):
        asked = client.post(
            f"{BASE}/pause", params={"dry_run": text}, json={"reason": "x"}
        )
        assert "dry_run" in problem(asked, 422)["detail"]
    problem(client.get(f"{BASE}/plans/{2**70}"), 422)
    sent = {"content": b"{}", "headers": {"content-encoding": "gzip"}}
    problem(client.post(f"{BASE}/resume", **sent), 415)
    sent = {"content": b"<a/>", "headers": {"content-type": "application/xml"}}
    problem(client.post(f"{BASE}/resume", **sent), 415)
    problem(client.post(f"{BASE}/runs/default/pilot:accept", json={"more": 1}), 422)
    problem(client.delete(f"{BASE}/status"), 405)


def test_other_host_names_are_refused(house):
    for host in ("evil.example", "127.0.0.1.evil.example"):
        asked = house.client().get(f"{BASE}/status", headers={"host": host})
        problem(asked, 421)


def test_safety_44_tokens_are_not_tried_without_end(house):
    speaking = house.speaking
    try:
        house.open(refusals=Rate(per_minute=1, burst=2))
        client = house.client("guess")
        codes = [client.get(f"{BASE}/status").status_code for _ in range(3)]
    finally:
        house.speaking = speaking
    assert codes == [401, 401, 429]


# -- acts ------------------------------------------------------------------------------------


def test_a_body_of_open_quotes_is_refused_as_fast_as_it_is_read(house):
    """A megabyte of escaped quotes took an hour: each was tried as a beginning."""
    body = b'"' + b'\\"' * ((1 << 19) - 1)
    headers = {"content-type": "application/json"}
    post = house.client().post(f"{BASE}/policies:check", content=body, headers=headers)
    assert problem(post, 400)["detail"] == "the body is no JSON in UTF-8"


def test_no_address_takes_a_key_and_no_line_of_the_audit_log_has_one(house):
    client = house.client()
    with unchanged(house):
        for path in ("records/key-canary-0", "records/key-canary-0/explanation",
                     "subjects/person-canary-0"):  # fmt: skip
            assert "canary" not in str(problem(client.get(f"{BASE}/{path}"), 404))
        for verb, body in (("erase", {"confirm": "person-canary-0"}), ("report", {})):
            path = f"{BASE}/subjects/person-canary-0:{verb}"
            problem(client.post(path, json=body), 404)
    assert client.get(f"{BASE}/records/{house.record('key-canary-0')}").json()["id"]


def test_a_connector_that_is_added_reads_no_file_of_the_machine(house):
    settings = {
        "kind": "webhook",
        "url": "https://x.example",
        "secret_file": "policy.toml",
    }
    body = {"name": "thief", "settings": settings}
    found = problem(house.client().post(f"{BASE}/connectors", json=body), 422)
    assert found["errors"][0]["pointer"] == "/settings/secret_file"


def test_a_connector_that_is_added_keeps_to_folders_of_the_workspace(house, tmp_path):
    (house.workspace.directory / "out").symlink_to(tmp_path)
    for kind, name in (("folder", "spool"), ("pickup", "path")):
        for place in (str(tmp_path / "x"), "../x", ".", "a/../..", "out/x"):
            body = {"name": "thief", "settings": {"kind": kind, name: place}}
            found = problem(house.client().post(f"{BASE}/connectors", json=body), 422)
            assert "outside of the workspace" in str(found), place
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "settings",
    [{"spool": "one\ntwo"}, {"spool": "a\x7f"}, {"a b": "x"}, {"spool\n[x]": "x"}],
)
def test_a_setting_of_several_lines_is_refused_and_named(house, settings):
    body = {"name": "lines", "settings": {"kind": "folder", **settings}}
    before = house.workspace.directory / "dispatcher.toml"
    was = before.read_bytes() if before.exists() else None
    found = problem(house.client().post(f"{BASE}/connectors", json=body), 422, "E003")
    if "spool" in settings:
        assert found["facts"] == {"setting": "spool"}
    assert (before.read_bytes() if before.exists() else None) == was


def test_an_act_is_done_and_logged_under_the_name_of_the_token(house):
    client = house.client()
    done = client.post(f"{BASE}/pause", json={"reason": "a test"})
    assert done.json() == {"scope": "all"}
    assert client.get(f"{BASE}/status").json()["paused"]["all"]["reason"] == "a test"
    line = client.get(f"{BASE}/audit-log", params={"limit": 1}).json()["items"][0]
    said = line["actor"], line["surface"], line["operation"], line["outcome"]
    assert said == ("token:all", "api", "pause", "done")
    assert line["reason"] == "a test"
    done = client.post(f"{BASE}/resume", json={})
    assert done.json() == {"scope": "all", "was_paused": True, "still_paused": []}


def test_a_worker_is_blocked_and_unblocked(house):
    client = house.client()
    path = f"{BASE}/workers/inhouse/ann"
    assert client.post(f"{path}:block").json()["state"] == "blocked"
    assert client.get(path).json()["state"] == "blocked"
    problem(client.post(f"{path}:block"), 409, "E005")
    assert client.post(f"{path}:unblock").json()["state"] == "active"


def test_what_is_edited_must_be_as_it_was_read(house):
    client = house.client()
    builders.add_run(house.store, "paid")
    path = f"{BASE}/runs/paid/budget"
    cap = {"cap": {"amount": "12.50", "currency": "GBP"}}
    problem(client.put(path, json=cap), 404)
    made = client.put(path, json=cap, headers={"if-none-match": "*"})
    assert made.json()["cap"] == {"amount": "12.50", "currency": "GBP"}
    problem(client.put(path, json=cap), 428)
    problem(client.put(path, json=cap, headers={"if-none-match": "*"}), 412)
    read = client.get(path)
    problem(client.put(path, json=cap, headers={"if-match": '"0"'}), 412)
    more = {"cap": {"amount": "20", "currency": "GBP"}}
    tag = {"if-match": read.headers["etag"]}
    assert client.put(path, json=more, headers=tag).status_code == 200
    problem(client.put(path, json=more, headers=tag), 412)
    assert client.get(path).json()["cap"]["amount"] == "20.00"


def test_what_a_command_edits_between_the_look_and_the_act_is_not_overwritten(
    house, monkeypatch
):
    client = house.client()
    builders.add_run(house.store, "raced")
    people.add_user(house.workspace, house.store, "raced", ["viewer"])
    budget, roles = f"{BASE}/runs/raced/budget", f"{BASE}/users/raced/roles"
    cap = {"cap": {"amount": "10", "currency": "GBP"}}
    assert client.put(budget, json=cap, headers={"if-none-match": "*"})
    others = runs.BudgetChange({"cap": runs.read_amount("GBP:20", "cap")})
    newer = policies.PolicyFile(
        house.workspace.policy_path, POLICY + b"# raced\n", parse(POLICY).policy
    )
    acts = (  # module, name, what a command does meanwhile, address, request
        (runs, "set_budget", ("raced", others), "PUT", budget, cap),
        (people, "set_roles", ("raced", ["operator"]), "PUT", roles,
         {"roles": ["reviewer"]}),
        (policies, "apply", (newer,), "POST", f"{BASE}/policies:apply",
         {"source": POLICY.decode() + "# mine\n"}),
    )  # fmt: skip
    for module, name, command, method, path, body in acts:
        act = getattr(module, name)
        more = {"in_flight": "keep"} if module is policies else {}

        def late(workspace, store, *given, act=act, command=command, more=more, **kept):
            act(house.workspace, house.store, *command, **more)
            return act(workspace, store, *given, **kept)

        read = f"{BASE}/policies/active" if module is policies else path
        tag = {"if-match": client.get(read).headers["etag"]}
        with monkeypatch.context() as racing:
            racing.setattr(module, name, late)
            sent = client.request(method, path, json=body, headers=tag)
        problem(sent, 412, "E006")
    assert client.get(budget).json()["cap"]["amount"] == "20.00"
    assert client.get(roles).json()["roles"] == ["operator"]
    assert "# raced" in client.get(f"{BASE}/policies/active").json()["source"]


def test_a_webhook_is_added_looked_at_rotated_and_removed(house):
    client, hooks = house.client(), f"{BASE}/webhooks"
    asked = {"url": "https://hooks.example.org/d", "types": ["limit.crossed"]}
    made = client.post(hooks, json=asked).json()
    here = f"{hooks}/{made['id']}"
    assert made["secret"].startswith("whsec_")
    for wrong in ({"url": "https://10.0.0.1/"}, {**asked, "types": ["none"]}):
        problem(client.post(hooks, json=wrong), 422)
    shown = client.get(here).json()
    assert [one for one in client.get(hooks).json() if one["id"] == made["id"]] == [
        shown
    ]
    assert shown["types"] == ["limit.crossed"]
    assert made["secret"] not in str(shown)
    new = client.post(f"{here}:rotate").json()
    assert new["secret"] != made["secret"]
    assert client.get(here).json()["old_secret_until"] == new["old_until"]
    with house.store.write() as tx:
        number = notices.add(tx, house.case.now, "limit.crossed", {"event": 1})
        rows = [(number, made["id"], n) for n in range(3)]
        first = notices.add_deliveries(tx, [number], rows)
    listed = client.get(f"{here}/deliveries?limit=2").json()
    assert [one["id"] for one in listed["items"]] == [first + 2, first + 1]
    after = {"limit": 2, "cursor": listed["next_cursor"]}
    rest = client.get(f"{here}/deliveries", params=after).json()
    assert [one["id"] for one in rest["items"]] == [first]
    assert client.get(f"{here}/deliveries?failed=true").json()["items"] == []
    again = f"{here}/deliveries/{first}:redeliver"
    assert client.post(again).json() == {"id": first}
    problem(client.post(again.replace(here, f"{hooks}/4711")), 404)
    problem(client.post(f"{here}:test?dry_run=true"), 422)
    assert client.delete(here).json() == {"id": made["id"]}
    problem(client.get(here), 404)


# -- the description -------------------------------------------------------------------------


def test_the_description_in_the_docs_is_the_one_that_is_served(house):
    served = house.client(None).get(f"{BASE}/openapi.json").json()
    kept = Path("docs/reference/openapi.json").read_text(encoding="utf-8")
    told = "python -m dispatcher.surfaces.api > docs/reference/openapi.json"
    assert json.loads(kept) == served, told
    assert served["openapi"].startswith("3.1")


# -- what reveals, draws, drafts and checks ----------------------------------------------------


def test_values_of_a_record_are_shown_for_a_reason_that_is_kept_before(house):
    client = house.client()
    name = house.record("key-canary-0")
    path = f"{BASE}/records/{name}:reveal"
    problem(client.post(path, json={}), 422)
    problem(client.post(f"{path}?dry_run=true", json={"reason": "x"}), 422)
    answer = client.post(path, json={"reason": "a complaint"})
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert shown["key"] == "key-canary-0"
    assert shown["loaded"] == {"shown": "Ada-Canary"}
    assert shown["answers"]["a"] == "Ada-Canary"
    assert shown["states"]["a"] == "answered"
    with house.store.read() as tx:
        (line,) = audit_log.newest(tx, operation="records.reveal", limit=1)
    assert (line.target, line.reason, line.outcome) == (name, "a complaint", "done")
    problem(client.post(f"{BASE}/records/r0:reveal", json={"reason": "x"}), 404)


def test_a_value_that_cannot_be_noted_is_not_shown(house, monkeypatch):
    def fail(*_, **__):
        raise NotShipped("not kept outside", why="a test", fix="wait")

    monkeypatch.setattr(audit_log.Act, "write", fail)
    path = f"{BASE}/records/{house.record('key-canary-0')}:reveal"
    answer = house.client().post(path, json={"reason": "a complaint"})
    assert answer.status_code in (500, 503)
    assert "Ada-Canary" not in answer.text


def test_a_policy_is_asked_drawn_and_drafted(house):
    client = house.client()
    source = POLICY.decode()
    asked = {"source": source, "seen": ["a"], "following": "b"}
    said = client.post(f"{BASE}/policies:ask", json=asked).json()
    assert said == {"allowed": False, "refused_by": ["a-b"], "unjudged": []}
    begun = client.post(
        f"{BASE}/policies:picture", json={"source": source, "time_limit": 0.5}
    )
    drawn = done(house, begun)
    assert "One stranger can see" in drawn["result"]["sentences"][0]
    page = client.get(f"{begun.headers['location']}/content").text
    assert page.startswith("<!doctype html>")
    file = {"content": b"".join(map(str.encode, LOADED)),
            "headers": {"content-type": "application/x-ndjson"}}  # fmt: skip
    drafted = done(house, client.post(f"{BASE}/policies:suggest", **file))["result"]
    assert "a = { ask" in drafted["source"]
    assert "Canary" not in drafted["source"]


def test_what_was_handed_out_is_checked_and_a_bomb_is_not_unpacked(house):
    client = house.client()

    def check(content, media, **query):
        return done(
            house,
            client.post(
                f"{BASE}/evidence:verify",
                content=content,
                params=query,
                headers={"content-type": media},
            ),
        )

    begun = client.post(f"{BASE}/evidence")
    root = done(house, begun)["result"]["root"]
    bundle = client.get(f"{begun.headers['location']}/content").content
    found = check(bundle, "application/zip", head=root)["result"]
    assert (found["about"], found["ok"]) == ("evidence", True), found
    assert check(bundle, "application/zip", head="0" * 64)["result"]["ok"] is False
    asked = {"about": "key-canary-0.a"}
    proof = client.post(f"{BASE}/ledger:prove", json=asked).json()["document"]
    found = check(json.dumps(proof), "application/json")["result"]
    assert (found["about"], found["ok"]) == ("proof", True)
    bad = {"bomb": [("x", b"0" * (5 << 20))], "beside": [("../x", b"x")],
           "many": [(str(n), b"") for n in range(101)]}  # fmt: skip
    for name, members in bad.items():
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members:
                archive.writestr(member, content)
        found = check(packed.getvalue(), "application/zip")
        assert found["problem"]["status"] == 422, name
    assert check(b"{}", "application/json")["state"] == "failed"


def test_users_and_sessions_are_managed_by_whoever_may(house):
    """No token may: a principal of another kind stands for the console's session."""
    client = house.client()
    made = client.post(f"{BASE}/users", json={"name": "eve", "roles": ["viewer"]})
    assert "/enrol#k=" in made.json()["link"]
    problem(client.post(f"{BASE}/users", json={"name": "mal", "roles": ["root"]}), 422)
    place = f"{BASE}/users/eve/roles"
    tag = {"if-match": client.get(place).headers["etag"]}
    roles = {"roles": ["operator", "data-viewer"]}
    problem(client.put(place, json=roles), 428)
    assert client.put(place, json=roles, headers=tag).json()["roles"] == [
        "data-viewer", "operator",
    ]  # fmt: skip
    problem(client.put(place, json=roles, headers=tag), 412)
    for verb, state in (("disable", "disabled"), ("enable", "invited")):
        assert client.post(f"{BASE}/users/eve:{verb}").json()["state"] == state
    assert client.post(f"{BASE}/users/eve:reset").json()["link"]
    link = access.make_link(house.store, house.case.tick())
    access.sign_in_by_link(house.store, link, house.case.tick())
    opened = client.get(f"{BASE}/sessions").json()[0]["id"]
    assert client.post(f"{BASE}/sessions/{opened}:revoke").json()["id"] == opened
    assert client.get(f"{BASE}/sessions").json() == []


# -- acting once ------------------------------------------------------------------------------


def test_safety_43_a_request_sent_again_and_again_acts_once(house):
    """Fifty at once: one acts, the others are told that it is under way, or what it did."""
    client = house.client()

    def send(number):
        return client.post(
            f"{BASE}/workers",
            json={"workers": [f"inhouse/once-{number % 2}"]},
            headers={"idempotency-key": f"key-{number % 2}"},
        )

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(50)))
    assert {one.status_code for one in answers} <= {200, 409}
    for number in range(2):
        again = send(number)
        assert again.headers["idempotency-replayed"] == "true"
        assert again.json()["added"] == [f"inhouse/once-{number}"]
    fresh = [
        one
        for one in answers
        if one.status_code == 200 and "idempotency-replayed" not in one.headers
    ]
    assert len(fresh) == 2


def test_a_key_is_good_for_one_request_of_one_token(house):
    client, key = house.client(), {"idempotency-key": "the-key"}
    one, other = {"workers": ["inhouse/k1"]}, {"workers": ["inhouse/k2"]}
    assert client.post(f"{BASE}/workers", json=one, headers=key).status_code == 200
    found = problem(client.post(f"{BASE}/workers", json=other, headers=key), 422)
    assert "Idempotency-Key" in found["detail"]
    problem(client.post(f"{BASE}/pause", json={"reason": "x"}, headers=key), 422)
    house.tokens["second"] = api_house.Caller("token:second")
    done = house.client("second").post(f"{BASE}/workers", json=other, headers=key)
    assert done.json()["added"] == ["inhouse/k2"]
    bad = {"idempotency-key": "k" * 256}
    problem(client.post(f"{BASE}/workers", json=one, headers=bad), 422)


def test_a_key_is_free_again_after_a_request_that_did_nothing(house):
    client, key = house.client(), {"idempotency-key": "failed"}
    asked = {"workers": ["nowhere/k1"]}
    problem(client.post(f"{BASE}/workers", json=asked, headers=key), 422)
    asked = {"workers": ["inhouse/k3"]}
    assert client.post(f"{BASE}/workers", json=asked, headers=key).status_code == 200


def test_a_request_that_failed_after_it_had_committed_acts_once(house, monkeypatch):
    """Kept in the store but not shipped: whoever repeats it must not act twice."""
    client, key = house.client(), {"idempotency-key": "half"}

    def half(workspace, store, *given, **options):
        pause(workspace, store, *given, **options)
        raise NotShipped("not kept outside", why="a test", fix="wait")

    pause = queue.pause
    monkeypatch.setattr(queue, "pause", half)
    asked = {"reason": "a test"}
    problem(client.post(f"{BASE}/pause", json=asked, headers=key), 503)
    with unchanged(house):
        problem(client.post(f"{BASE}/pause", json=asked, headers=key), 409)
    client.post(f"{BASE}/resume", json={})


def test_an_edit_sent_again_under_its_key_gets_the_answer_of_the_first(house):
    client = house.client()
    tag = {"if-match": client.get(f"{BASE}/policies/active").headers["etag"]}
    source = POLICY.decode() + "# a remark\n"
    sent = {"json": {"source": source}, "headers": tag | {"idempotency-key": "edit"}}
    first = client.post(f"{BASE}/policies:apply", **sent)
    again = client.post(f"{BASE}/policies:apply", **sent)
    assert (first.status_code, again.json()) == (200, first.json()), first.text


def test_a_conflict_is_listed_shown_for_a_reason_and_judged(house):
    entry = house.case.entries["key-canary-1.a"]
    builders.dispute(house.store, entry, "Ada-Canary")
    client, name = house.client(), f"{house.record('key-canary-1')}.a"
    listed = client.get(f"{BASE}/answers/conflicts").json()["items"]
    assert [one["id"] for one in listed] == [name]
    assert "Canary" not in str(listed)
    shown = client.post(f"{BASE}/fields/{name}:reveal", json={"reason": "look"}).json()
    assert shown["answers"] == {"A": "Ada-Canary"}
    assert b64decode(shown["content"]) == b"Ada-Canary gout-canary"
    asked = {"decision": "choose", "letter": "A", "reason": "looked"}
    by_key = client.post(f"{BASE}/fields/key-canary-1.a:judge", json=asked)
    assert "key-canary" not in problem(by_key, 404)["detail"]
    house.tokens["few"] = api_house.Caller("token:few", frozenset({"answers.judge"}))
    more = {"decision": "ask", "reason": "unsure"}
    problem(house.client("few").post(f"{BASE}/fields/{name}:judge", json=more), 403)
    place = f"{BASE}/fields/{name}:judge"
    tried = client.post(place, params={"dry_run": True}, json=asked).json()
    done = client.post(place, json=asked).json()
    assert tried == done
    assert (done["after"], done["decided_by"]) == ("answered", "operator")
    with house.store.read() as tx:
        found = audit_log.newest(tx, operation="answers.judge")
    (line,) = [one for one in found if one.outcome == "done"]
    assert (line.target, line.reason) == (name, "looked")


def uploads(house):
    return list(house.workspace.directory.glob("api-files/*/upload-*"))


def test_an_upload_sent_again_leaves_no_file_behind(house):
    key = {"content-type": "application/x-ndjson", "idempotency-key": "twice"}
    place = f"{BASE}/runs/again/records"
    sent = [
        house.client().post(place, content=line("again"), headers=key) for _ in range(2)
    ]
    house.shared.requests.wait()
    assert [one.status_code for one in sent] == [202, 202]
    assert uploads(house) == []


def test_an_upload_that_stalls_is_ended_and_gives_its_place_back(house, monkeypatch):
    """Else eight slow clients would keep all others out for ever."""
    monkeypatch.setattr(app, "PATIENCE", 0.0)  # it had its time

    async def stalls():
        yield line("slow").encode()
        await asyncio.Event().wait()

    async def send():
        here = ASGITransport(app=house.speaking.app, client=("127.0.0.1", 5))
        kind = {"content-type": "application/x-ndjson", "authorization": "Bearer all"}
        async with AsyncClient(transport=here, base_url=LOCAL, headers=kind) as slow:
            return await slow.post(f"{BASE}/runs/slow/records", content=stalls())

    with unchanged(house):
        problem(asyncio.run(send()), 408)
    assert uploads(house) == []


def test_uploads_that_wait_are_private_few_and_of_every_caller(house, monkeypatch):
    waiting, go = [], threading.Event()
    load = records.load
    monkeypatch.setattr(records, "load", lambda *a, **b: go.wait() and load(*a, **b))
    try:
        for n in range(UPLOADS_OF_ONE):
            waiting.append(upload(house, [line(f"w{n}")], run=f"w{n}"))
        refused = upload(house, [line("more")], run="more")
        problem(refused, 429)
        assert refused.headers["retry-after"]
        assert len(uploads(house)) == UPLOADS_OF_ONE
        folders = [house.workspace.directory / "api-files", *uploads(house)]
        assert {one.stat().st_mode & 0o777 for one in folders} == {0o700}
        house.tokens["second"] = api_house.Caller("token:second")
        other = house.client("second").post(
            f"{BASE}/records:preview",
            content=line("other"),
            headers={"content-type": "application/x-ndjson"},
        )
        assert other.status_code == 200, other.text
    finally:
        go.set()
    assert {done(house, one)["state"] for one in waiting} == {"done"}
    assert uploads(house) == []


def test_what_holds_a_secret_is_not_remembered(house):
    client, key = house.client(), {"idempotency-key": "links"}
    asked = {"workers": ["inhouse/bob"]}
    first = client.post(f"{BASE}/workers:invite", json=asked, headers=key)
    link = first.json()["links"]["inhouse/bob"]
    assert link
    problem(client.post(f"{BASE}/workers:invite", json=asked, headers=key), 409)
    with house.store.read() as tx:
        kept = sql.rows(tx, "SELECT body FROM api_request WHERE key = 'links'")
    assert kept == [(None,)]
    tried = client.post(f"{BASE}/workers:invite?dry_run=true", json=asked)
    assert tried.json()["links"] == {"inhouse/bob": ""}


# -- what takes long, files in and files out --------------------------------------------------


def done(house, response, token="all"):
    """The operation that a response began, when it ended."""
    assert response.status_code == 202, response.text
    house.shared.requests.wait()
    return house.client(token).get(response.headers["location"]).json()


def upload(house, lines, run="loaded", **query):
    return house.client().post(
        f"{BASE}/runs/{run}/records",
        params=query,
        content=lines if isinstance(lines, bytes) else "".join(lines).encode(),
        headers={"content-type": "application/x-ndjson"},
    )


def line(key, **more):
    row = {"id": key, "person": f"p-{key}", "when": "2026-01-01", "a": "Ada-Canary"}
    row |= dict.fromkeys("bcd", "")
    return json.dumps(row | more) + "\n"


LOADED = [line("one"), line("two", b="gout-canary")]


def test_safety_16_records_are_loaded_and_taken_out_once_as_an_attachment(house):
    loaded = done(house, upload(house, LOADED, run="out"))
    assert loaded["state"] == "done", loaded["problem"]
    assert loaded["result"] == {
        "run": "out", "records": 2, "entries": 3, "skipped": 0, "rejected": 0,
    }  # fmt: skip
    assert done(house, upload(house, LOADED, run="out"))["result"]["skipped"] == 2
    client = house.client()
    asked = {"format": "jsonl", "reason": "the month is over"}
    begun = client.post(f"{BASE}/runs/out:export", json=asked)
    assert done(house, begun)["result"]["records"] == 2
    place = begun.headers["location"]
    problem(house.client("nothing").get(f"{place}/content"), 403)
    house.tokens["second"] = api_house.Caller("token:second")
    problem(house.client("second").get(place), 404)
    problem(house.client("second").get(f"{place}/content"), 404)
    left = frozenset({"status"})  # the role that showed values was taken away
    house.tokens["all"] = api_house.Caller("token:all", left)
    problem(client.get(f"{place}/content"), 403)
    house.tokens["all"] = api_house.Caller("token:all")
    fetched = client.get(f"{place}/content")
    assert fetched.headers["content-disposition"] == (
        'attachment; filename="out.jsonl"'
    )
    assert len(fetched.text.splitlines()) == 2
    problem(client.get(f"{place}/content"), 404)
    problem(client.post(f"{BASE}/runs/out:export?dry_run=true", json=asked), 422)
    with house.store.read() as tx:
        (row,) = audit_log.newest(tx, operation="records.reassemble", limit=1)
    assert (row.target, row.reason, row.outcome) == (
        "out",
        "the month is over",
        "done",
    )


def test_one_caller_does_not_take_the_operations_and_files_of_all(house, monkeypatch):
    go, asked = threading.Event(), {"format": "jsonl", "reason": "a test"}
    write = records.reassemble_to_stream
    monkeypatch.setattr(
        records, "reassemble_to_stream", lambda *a, **b: go.wait() and write(*a, **b)
    )

    def export(token="all"):
        house.tokens["second"] = api_house.Caller("token:second")
        place = f"{BASE}/runs/default:export"
        return house.client(token).post(place, json=asked)

    try:
        begun = [export() for _ in range(WAITING_OF_ONE)]
        with monkeypatch.context() as later:
            later.setattr(house.shared.requests, "clock", lambda: 2**62)
            house.shared.requests.expire()  # none that is being written
        assert "retry-after" in export().headers
        others = export("second")
    finally:
        go.set()
    assert [done(house, one)["state"] for one in begun] == ["done"] * WAITING_OF_ONE
    assert done(house, others, "second")["state"] == "done"
    left = [one for one in begun if one.headers["location"][-35:] in kept(house)]
    assert len(left) == FILES_OF_ONE
    monkeypatch.setattr(
        house.shared.requests, "clock", lambda: house.case.tick() + HOUR
    )
    house.shared.requests.expire()
    assert not kept(house)
    problem(house.client("second").get(f"{others.headers['location']}/content"), 404)


def kept(house):
    """Numbers of the operations whose files wait."""
    return set(house.shared.requests._files)


def test_safety_20_a_file_with_one_bad_line_loads_nothing_and_says_which(house):
    """The last of many is named, and nothing is half done."""
    good = [line(f"many-{n}") for n in range(300)]
    for bad in (
        '{"id": "x"', '{"id": "x", "id": "y"}', "[1]", '{"id": NaN}', "[" * 80, "7",
        '{"id": "\\u0000"}',
    ):  # fmt: skip
        with unchanged(house, "audit_line", "setting"):
            found = done(house, upload(house, [*good, bad]))
        assert found["state"] == "failed"
        assert found["problem"]["status"] == 422
        assert found["problem"]["errors"][0]["line"] == "301", bad
    with unchanged(house, "audit_line", "setting"):
        found = done(house, upload(house, [*good, line("many-0", a="other")]))
        assert found["problem"]["errors"][0]["line"] == "301"
        assert "canary" not in str(found).lower()
        tried = done(house, upload(house, [line("dry")], dry_run="true"))
        assert tried["result"]["records"] == 1
    tail = line("many-0", a="other")
    found = done(house, upload(house, [*good[:2], tail], on_rejected="skip"))
    assert found["result"]["records"] == 2
    assert found["result"]["rejected"] == 1


def test_what_is_too_long_is_refused_before_it_is_held_in_memory(house, monkeypatch):
    """Two gibibytes may come as one line, or as one proof."""
    monkeypatch.setattr(content, "LONGEST_LINE", 1000)
    with unchanged(house, "audit_line", "setting"):
        found = done(house, upload(house, [line("short"), line("x" * 1000), "{}"]))
        assert found["problem"]["errors"][0]["line"] == "2"
        assert "1,000 bytes" in found["problem"]["detail"]
    monkeypatch.setattr(evidence, "DOCUMENT", 1000)
    sent = house.client().post(
        f"{BASE}/evidence:verify",
        content=b'"' + b"x" * 1000 + b'"',
        headers={"content-type": "application/json"},
    )
    assert "1,000 bytes" in done(house, sent)["problem"]["detail"]


def test_a_plan_is_made_read_and_applied(house):
    client = house.client()
    assert done(house, upload(house, [line("to-plan")]))["state"] == "done"
    made = done(house, client.post(f"{BASE}/plans", json={"time_limit": 0.5}))
    assert made["state"] == "done", made
    plan = client.get(f"{BASE}/plans/{made['result']['plan']}").json()
    assert plan["state"] == "draft"
    applied = client.post(f"{BASE}/plans/{plan['id']}:apply").json()
    assert applied["plan"] == plan["id"]


def test_an_operation_that_was_broken_off_says_so(house):
    with house.store.write() as tx:
        api_requests.begin(
            tx, "op_lost", caller="token:all", operation="draft_plan", key=None,
            digest="", process="another", now=house.case.now,
        )  # fmt: skip
    house.shared.requests.open()
    found = house.client().get(f"{BASE}/operations/op_lost").json()
    assert found["state"] == "interrupted"


def test_a_policy_is_checked_compared_and_put_in_force_over_the_one_that_was_read(
    house,
):
    client = house.client()
    stricter = POLICY.decode().replace("tau = 0.75", "tau = 0.5")
    checked = client.post(f"{BASE}/policies:check", json={"source": "version = 9"})
    assert checked.json()["valid"] is False
    assert checked.json()["diagnostics"][0]["line"] == 1
    compared = client.post(f"{BASE}/policies:diff", json={"source": stricter}).json()
    assert [one["looser"] for one in compared["differences"]] == [False]
    body = {"source": stricter}
    problem(client.post(f"{BASE}/policies:apply", json=body), 428)
    stale = {"if-match": '"stale"'}
    problem(client.post(f"{BASE}/policies:apply", json=body, headers=stale), 412)
    tag = {"if-match": client.get(f"{BASE}/policies/active").headers["etag"]}
    refused = client.post(f"{BASE}/policies:apply", json=body, headers=tag)
    if refused.status_code == 409:
        assert problem(refused, 409)["code"] == "E204"
    else:
        assert refused.json()["changed"]


# -- events ------------------------------------------------------------------------------------


def test_events_are_told_as_they_happen_and_from_where_a_reader_left(house):
    async def listen(after, count):
        found = []
        async for text in house.shared.stream.read(after, "token:all"):
            if text.startswith("id: "):
                found.append(json.loads(text.partition("data: ")[2]))
                if len(found) == count:
                    return found
            elif text.startswith("retry") and after is None:
                note("test.first", "test.second")
        return found

    def note(*actions):
        with house.store.write() as tx:
            for action in actions:
                events.add_event(tx, house.case.tick(), "test", action, {"secret": 1})

    live = asyncio.run(listen(None, 2))
    assert [one["action"] for one in live] == ["test.first", "test.second"]
    again = asyncio.run(listen(live[0]["id"], 1))
    assert again == [live[1]]
    assert "secret" not in str(live)


def test_one_caller_does_not_take_all_streams(house, monkeypatch):
    monkeypatch.setattr("dispatcher.surfaces.api.events.MOST_OF_ONE", 1)
    stream = house.shared.stream

    async def read():
        first = stream.read(None, "token:all")
        assert await anext(first) == "retry: 1000\n\n"
        assert stream.is_full("token:all")
        assert not stream.is_full("token:second")
        late = [text async for text in stream.read(None, "token:all")]
        await first.aclose()
        return late

    assert asyncio.run(read()) == ["retry: 30000\n\n"]
    assert not stream.is_full("token:all")


# -- the client --------------------------------------------------------------------------------


def test_the_example_of_the_client_loads_plans_watches_and_exports(
    house, tmp_path, monkeypatch, capsys
):
    """The program on docs/howto/api-client.md, word for word, but for the connection."""
    page = Path("docs/howto/api-client.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len([one for one in example.splitlines() if one.strip()]) <= 30
    (tmp_path / "api.token").write_text("all\n")
    (tmp_path / "scans.jsonl").write_text(line("scan-1") + line("scan-2", b="x"))
    monkeypatch.setenv("FOLDER", str(tmp_path))
    speaking = TestClient(house.speaking.app, base_url=api_house.LOCAL)
    monkeypatch.setattr("httpx2.Client", lambda **_: speaking)
    monkeypatch.setattr("time.sleep", lambda _: house.shared.requests.wait())
    exec(compile(example, "api-client.md", "exec"), {})
    told = capsys.readouterr().out
    assert "would load 2\nloaded 2 records, 3 fields\n" in told
    assert len((tmp_path / "november.jsonl").read_text().splitlines()) == 2
    assert (tmp_path / "november.jsonl").stat().st_mode & 0o777 == 0o600


def test_the_client_says_why_it_was_refused(house):
    api = Client(api_house.LOCAL, "all", http=house.speaking)
    with pytest.raises(ApiError) as refused:
        api.get("/runs/none", documents.Run)
    assert refused.value.problem.status == 404
    assert "fix" in documents.Problem.model_fields


# -- figures -------------------------------------------------------------------------------


def test_figures_are_served_as_the_numbers_that_the_charts_draw(house):
    with house.store.write() as tx:
        epoch = lease.take(
            tx, lease.SHARD, "me", house.case.now, house.case.now + 10**9
        )
    Sampler(house.store, lambda: house.case.now).tick(epoch)
    client = house.client()
    rate = client.get(f"{BASE}/figures/answers?hours=1").json()
    assert (rate["period_seconds"], len(rate["refused"])) == (60, 60)
    left = client.get(f"{BASE}/figures/burn-down").json()
    assert left["end"] is None
    assert "no estimate yet" in left["why_none"]
    fields = client.get(f"{BASE}/figures/fields").json()["fields"]
    assert sum(one["open"] for one in fields) == left["left"][-1]["value"] > 0
    found = client.get(f"{BASE}/figures/exposure").json()
    near = found["nearest"][0]["usages"]
    assert near.keys() <= {*found["rules"]} == {"a-b", "history"}
    assert all(0 <= one["share"] <= 1 for one in near.values())
    for name in ("durations", "calls", "waiting", "growth"):
        assert client.get(f"{BASE}/figures/{name}").status_code == 200
    problem(client.get(f"{BASE}/figures/calls?hours=0"), 422)
    progress = client.get(f"{BASE}/figures/progress").json()
    assert "default" in [one["run"] for one in progress]
    assert sum(one["answered"] for one in progress) > 0
    assert all(one["answered"] <= one["fields"] for one in progress)


def test_a_rule_shows_who_could_complete_a_set_next(house):
    client = house.client()
    rule = client.get(f"{BASE}/rules/a-b").json()
    assert (rule["fields"], rule["scope"], rule["crossed"]) == (["a", "b"], "record", 0)
    assert rule["judged"]
    one = house.record("key-canary-0")
    near = next(each for each in rule["nearest"] if each["unit"] == one)
    assert near["left"] == 1, "one more would complete it"
    found = client.get(f"{BASE}/rules/a-b/sets/{one}").json()
    shown = {each["field"]: each["holders"] for each in found["entries"]}
    assert shown == {"a": [near["worker"]], "b": []}
    (holder,) = found["holders"]
    assert "inhouse/ann" in holder["accounts"]
    assert holder["refused"] == [[one, "b"]]
    problem(client.get(f"{BASE}/rules/none"), 404)
    problem(client.get(f"{BASE}/rules/a-b/sets/key-canary-0"), 404)
