"""Fields that must lie at Label Studio, through the whole program, to the answers."""

from __future__ import annotations

import csv
from functools import partial

import httpx2
import pytest

from connectors.label_studio.market import HEADER
from tests.contract.label_studio_server import LEGACY, World, label_studio
from tests.contract.label_studio_suite import chose, wrote
from tests.e2e.programs import PATIENCE, Program, terminate, until
from tests.e2e.torture import raw

POLICY = """
version = 1
name = "letters"

[budget]
tau = 0.5
t = 2

[entity.letter]
key = "id"

[entity.letter.fields]
sender = { ask = "transcribe", answers = 1 }
town = { ask = "transcribe", answers = 1 }
urgent = { ask = "yes_no", answers = 1 }

[property.who-lives-where]
of = ["sender", "town"]
"""
SETTINGS = """
[connectors.inhouse]

[connectors.label-studio]
url = "{url}"
allow_private = "127.0.0.1"
secret_file = "label-studio.secret"
content = "there"
hook = "http://127.0.0.1:{port}/hooks/label-studio"
"""
LETTERS = [(f"l{n}", f"sender-{n}", f"town-{n}", f"mark-{n}") for n in range(3)]


def write(program: Program, url: str) -> None:
    directory = program.directory
    text = SETTINGS.format(url=url, port=program.ports[0])
    with (directory / "dispatcher.toml").open("a") as file:
        file.write(text)
    secret = directory / "label-studio.secret"
    secret.touch(mode=0o600)
    secret.write_text(f"{LEGACY}\n{'5a' * 32}\n")
    (directory / "policy.toml").write_text(POLICY)
    with (directory / "letters.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "sender", "town", "urgent"), *LETTERS])


def counted(program: Program, what: str) -> int:
    with raw.opened(program.directory, None) as store:
        return int(store.value(f"SELECT count(*) FROM {what}"))


def answered(program: Program, outside: World) -> bool:
    """Answer what came since; whether all that lies there has its answer here."""
    with outside.lock:
        for number, task in list(outside.tasks.items()):
            if not outside.whole(task)["annotations"]:
                told = chose("yes") if task["data"]["choices"] else wrote("as read")
                outside.annotate(number, {"result": [told]})
    known = counted(program, LIE_THERE)
    return counted(program, "answer WHERE valid = 1") == len(outside.tasks) == known


SENT = "task WHERE connector = 'label-studio' AND state = 'sent'"
LIE_THERE = (
    "task t JOIN outbox o ON o.id = t.outbox_id"
    " WHERE t.connector = 'label-studio' AND o.state = 'sent'"
)


@pytest.mark.long
def test_no_more_lies_there_than_one_may_see_and_answers_come_back(
    tmp_path, sqlite_template
):
    """Of sender and town one goes there at most; a call that is ours counts."""
    program = Program(tmp_path)
    with label_studio() as outside:
        program.settle(sqlite_template)
        write(program, outside.url)
        program.run("policy", "apply")
        program.run("workers", "add", "label-studio/everyone", "inhouse/ann")
        program.run("records", "load", str(tmp_path / "letters.csv"))
        with program.up("--drain", "0") as process:
            program.ready()
            until(lambda: counted(program, SENT) >= 3, "fields go out")
            until(lambda: outside.webhooks, "a webhook is left there")
            (hook,) = outside.webhooks
            for headers, status in (({HEADER: "x"}, 401), (hook["headers"], 204)):
                answer = httpx2.post(
                    hook["url"], headers=headers, timeout=PATIENCE, trust_env=False
                )
                assert answer.status_code == status
            until(partial(answered, program, outside), "answers are in")
            assert counted(program, "webhook_delivery") == 1
            assert terminate(process) == 0
        shown = [task["data"]["shown"] for task in outside.tasks.values()]
        assert len(shown) == counted(program, LIE_THERE) >= 3
        for _, *pair, _ in LETTERS:
            assert sum(any(word in one for one in shown) for word in pair) <= 1
