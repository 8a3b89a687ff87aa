"""Strings that break programs are shown literally: on pages, in files, by the API.

One store has each of them as a worker's name, a record's key and person, a question, a
value, an answer, a reason and a market's error.
"""

import csv
import html
import io
import json
import re
import unicodedata
from contextlib import suppress
from html.parser import HTMLParser

import pytest
from starlette.testclient import TestClient

from connectors.formats.formula_guard import guard, unguard
from dispatcher.access import OPERATIONS, Act
from dispatcher.access.roles import scopes_of
from dispatcher.core.errors import Usage
from dispatcher.core.private_files import ScratchFolder
from dispatcher.identity import account_of
from dispatcher.operations.status import status
from dispatcher.operations.workspace import Workspace
from dispatcher.store import records
from dispatcher.store.audit_log import DONE
from dispatcher.surfaces.api.app import ApiSettings, api_app
from dispatcher.surfaces.api.calls import Shared
from dispatcher.surfaces.api.events import Stream
from dispatcher.surfaces.api.requests import Requests
from dispatcher.surfaces.console.screens import SCREENS
from tests import builders
from tests.integration.api_house import BASE, FAST, LOCAL, Caller, Speaker
from tests.integration.ledger_cases import Case
from tests.integration.serving_house import House
from tests.integration.test_console import PLACES
from tests.integration.test_console_acts import as_role, inputs, preview
from tests.integration.test_taskpage import arrived, text_of, token_of
from tests.integration.test_taskpage import make_app as make_app  # a fixture

STRINGS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "'onmouseover='alert(3)' x='",
    "</textarea></title></style><svg/onload=alert(4)>",
    "javascript:alert(5)",
    "--><!-- ]]> <![CDATA[ <b>bold</b>",
    "&lt;b&gt; &amp;quot; &#60;script&#62; &nbsp",
    "{{7*7}} ${7*7} #{7*7} {% raw %} <%= 7*7 %>",
    "Robert'); DROP TABLE entry;-- ",
    "1' OR '1'='1' UNION SELECT NULL--",
    "../../../etc/passwd",
    "%2e%2e%2f %0d%0aSet-Cookie:%20a=b %00 %s%n%x",
    "$(touch /tmp/x) `id` | cat; && rm -rf",
    '{"a": [1, null]}, \\u0041 \\n \\" \\\\',
    "=1+1+cmd|' /C calc'!A0",
    "+SUM(A1:A2)",
    "-2+3",
    "@import",
    "\u202eright to left\u202c \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "Z\u0351\u036b\u0343a\u0322\u0320l\u034eg\u0321\u0353o",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \U0001f3fd",
    "\ufeff\u200bzero\u00adwidth\u2060",
    "\u2028line\u2029paragraph\u0085next",
    "\u7530\u4e2d\u3055\u3093 \uff1d\uff11 \uff1cscript\uff1e",
    "\u0130\u0131\u00df\ufb01 \u2126\u212a caf\u0065\u0301",
    "undefined null NaN 1e309 -0 0x10 true",
    "  leading and trailing  ",
    "W" * 300,
)
"""One of each kind of the Big List of Naughty Strings, and some of our own."""


def _is_name(text: str) -> bool:
    with suppress(Usage):
        return account_of(f"inhouse/{text}")[1] == text
    return False


NAMES = tuple(filter(_is_name, STRINGS))
"""Those that can be the name of a worker."""
ROLES = ("operator", "policy-admin", "reviewer", "data-viewer")


def quoted(text: str) -> str:
    """A basic string of TOML, each sign by its number."""
    return '"' + "".join(f"\\U{ord(sign):08X}" for sign in text) + '"'


POLICY = f"""
version = 1
name = {quoted(STRINGS[0])}
[budget]
t = 3
[entity.thing]
key = "id"
subject = "person"
[entity.thing.fields]
a = {{ ask = "transcribe", question = {quoted(STRINGS[1])} }}
b = {{ ask = "choose", choices = [{", ".join(map(quoted, STRINGS[:8]))}] }}
[property.who-what]
of = ["a", "b"]
""".encode()


def plain(text: str) -> str:
    """As answers are compared: blanks are one, and a sign is one, however composed."""
    return " ".join(unicodedata.normalize("NFC", text).split())


class Page(HTMLParser):
    """What a browser makes of a page: its text, and what would run or lead away."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.text, self.runs, self.links, self._skips = "", [], [], False
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self._skips = tag in ("script", "style")
        if tag in ("script", "style") and "nonce" not in given:
            self.runs.append(tag)
        if tag in ("iframe", "object", "embed", "base", "b", "marquee"):
            self.runs.append(tag)
        for name, text in given.items():
            leads = name in ("href", "src", "action", "formaction")
            if name.startswith("on") or (
                leads and (text or "").startswith("javascript:")
            ):
                self.runs.append(f"{tag} {name}")
        self.links += [given["href"]] if "href" in given else []
        self.text += given.get("value") or ""

    def handle_endtag(self, tag):
        self._skips = False

    def handle_data(self, data):
        self.text += "" if self._skips else data


def read(reply) -> Page:
    """Parse a page on which nothing of ours but our own script may run."""
    assert reply.status_code < 500, reply.url
    page = Page(reply.text)
    assert page.runs == [], reply.url
    for own in ("<img src=x", "<svg/onload"):
        assert own not in reply.text
    return page


def fill(case: Case) -> None:
    """Every string as everything that it can be."""
    case.apply(POLICY)
    case.add(*(f"inhouse/{who}" for who in ("ann", "bob", "cat", *NAMES)))
    for number, text in enumerate(STRINGS):
        case.load(
            (text, text, None, "a"), shown=text.encode(), cells=[text, text, text]
        )
        entry = case.entries[f"{number}"] = case.entries[f"{text}.a"]
        who = text if text in NAMES else "cat"
        workers = (f"inhouse/{who}", "inhouse/ann", "inhouse/bob")
        case.book(*((who, f"{number}") for who in workers))
        builders.dispute(case.store, entry, text, f"{number}: {text}", "x")
        act = Act("eve", "console", "pause", case.tick, text, text)
        act.end(case.store, DONE)
    with case.store.write() as tx:
        records.begin_load(tx, 1, "made.csv", '["id", "person", "said"]', case.now)
    builders.settle_messages(case.store, "dead", tries=3, error=STRINGS[0])
    builders.pause(case.store, "connector:inhouse")


@pytest.fixture
def case(sqlite_store):
    made = Case(sqlite_store)
    fill(made)
    return made


def test_on_pages_in_files_and_by_the_api(app, case, clock, tmp_path):
    client = as_role(app, case, clock, *ROLES)
    look_at_screens(client)
    officer = as_role(app, case, clock, "privacy-officer")
    log = read(officer.get("/audit")).text
    assert [text for text in STRINGS if log.count(text) < 2] == []
    judge_and_reveal(client)
    take_files(client)
    call(case, clock, tmp_path)


def look_at_screens(client):
    for screen in SCREENS:
        place = PLACES.get(screen.path, screen.path)
        if place is not None and OPERATIONS[screen.operation] in scopes_of(ROLES):
            read(client.get(place.replace("/x/ann", "/inhouse/ann")))

    listed = read(client.get("/workers"))
    assert len(NAMES) > 20
    assert [text for text in NAMES if text not in listed.text] == []
    pages = {link for link in listed.links if link.startswith("/workers/inhouse/")}
    titles = "".join(read(client.get(link)).text for link in pages)
    # A client of tests reads what was quoted twice, as no browser does.
    named = [text for text in NAMES if "%" not in text]
    assert [text for text in named if f"inhouse/{text}" not in titles] == []
    assert STRINGS[0] in read(client.get("/queue?state=dead")).text
    assert STRINGS[0] in read(client.get("/policy")).text

    for text in STRINGS[:4]:  # given by an address, and given back in the form
        asked = {"reason": text, "q": text, "worker": text, "actor": text}
        for place in ("/do/pause", "/workers", "/policy/playground", "/fields"):
            read(client.get(place, params=asked))
        tried = preview(client, "pause", reason=text)
        assert text in read(tried).text


def judge_and_reveal(client):
    sent = {**inputs(client.get("/answers/judge")), "reason": "looked", "shows": "1"}
    missing = list(STRINGS)
    for _ in STRINGS:
        reply = client.post("/answers/judge", data=sent)
        page = read(reply)
        assert STRINGS[1] in page.text  # the question
        own = STRINGS[int(re.search(r"\b(\d+):\s", page.text)[1])]
        assert plain(own) in plain(page.text)
        missing.remove(own)
        hidden = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', reply.text)
        sent = {name: html.unescape(value) for name, value in hidden}
        sent["decision"] = "skip"
    assert missing == []
    names = re.findall(r"/records/(r[0-9a-f]+)", client.get("/records").text)
    told = ""
    for name in list(dict.fromkeys(names))[::4]:
        given = preview(client, "reveal-record", record=name, reason="looked")
        told += read(client.post("/do/reveal-record", data=inputs(given))).text
    assert [text for text in STRINGS[::4] if told.count(text) < 2] == []


def take_files(client):
    rows = csv.DictReader(io.StringIO(client.get("/workers?format=csv").text))
    names = {unguard(row["accounts"]).removeprefix("inhouse/") for row in rows}
    assert set(NAMES) <= names
    items = client.get("/workers?format=json").json()["items"]
    assert set(NAMES) <= {row["accounts"].removeprefix("inhouse/") for row in items}


def call(case, clock, tmp_path):
    requests = Requests(case.store, clock)
    shared = Shared(
        requests,
        Stream(case.store),
        lambda: status(case.store, clock()),
        ScratchFolder(tmp_path / "api"),
    )
    (tmp_path / "policy.toml").write_bytes(POLICY)
    workspace = Workspace(tmp_path, clock=clock, actor="daemon")
    called = api_app(
        workspace,
        case.store,
        lambda *_: Caller("token:all"),
        shared=shared,
        settings=ApiSettings(refusals=FAST, requests=FAST),
    )
    with TestClient(called, base_url=LOCAL) as served:
        api = Speaker(served, "all")
        listed = api.get(f"{BASE}/workers", params={"limit": 100}).json()["items"]
        assert {f"inhouse/{text}" for text in NAMES} <= {
            one["worker"] for one in listed
        }
        acts = api.get(f"{BASE}/audit-log", params={"limit": 100}).json()["items"]
        assert set(STRINGS) <= {one["reason"] for one in acts}
        for form in ("csv", "jsonl"):
            body = {"format": form, "reason": "looked"}
            begun = api.post(f"{BASE}/runs/default:export", json=body).json()
            requests.wait()
            out = api.get(f"{BASE}/operations/{begun['id']}/content").content.decode()
            if form == "csv":
                lines = list(csv.reader(io.StringIO(out, newline="")))[1:]
                found = {line[0] for line in lines}
                assert found == {guard(text) for text in STRINGS}
            else:
                lines = [json.loads(line) for line in out.split("\n") if line]
                assert {line["id"] for line in lines} == set(STRINGS)
                assert {line["said"] for line in lines} == set(STRINGS)
    requests.close()
    shared.scratch.close()


@pytest.fixture
def house(sqlite_store, clock) -> House:
    return House(sqlite_store, clock)


def test_on_the_task_page(make_app, house):
    app = make_app()
    who = house.account("ann")
    client = arrived(app, house, "ann")
    for number, text in enumerate(STRINGS, 1):
        (entry,) = house.record(number, name=text).values()
        house.plan((who, [entry]))
        task = client.post("/start")
        read(task)
        assert text_of(task) == text
        client.post(f"/task/{token_of(task)}/answer", data={"answer": text})
