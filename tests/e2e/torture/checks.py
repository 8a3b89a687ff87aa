"""What must hold after all the kills, judged from diaries, files and rows alone.

Nothing of the engine is used: SQL of its own, the chain's hashes made anew from the
form of the evidence, task tokens opened with the store's key.
"""

from __future__ import annotations

import csv
import hashlib
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from dispatcher.surfaces.demo.forms import FIELDS, WrittenBox
from tests.e2e.torture import diary, raw
from tests.e2e.torture.scene import ROOT, Scene
from tests.e2e.torture.unsealing import Unsealing

SHOWINGS = 5
"""t of the prescriptions policy."""

Pair = tuple[str, str, str]  # account, record key, field
Facts = Mapping[str, list[dict[str, Any]]]


@dataclass
class Ledger:
    """The store's rows, read once."""

    accounts: dict[int, str]  # id -> CONNECTOR/NAME
    adversaries: dict[int, int]  # account id -> chain id
    entries: dict[int, tuple[str, str]]  # id -> record key, field
    names: dict[int, str]  # entry id -> its name in the ledger
    lines: list[raw.Row]
    tasks: dict[int, raw.Row]  # id -> entry, account, outbox, state
    answers: dict[int, raw.Row]  # task -> entry, account, raw, valid
    outbox: dict[int, raw.Row]  # id -> kind, state, account
    chains: dict[int, raw.Row]  # id -> name, seq, head
    task_key: bytes

    def task_of(self, token: str) -> int:
        """Task id behind a token; 0 if the store's key did not make it."""
        cipher = Cipher(algorithms.AES(self.task_key), modes.ECB()).decryptor()
        plain = cipher.update(bytes.fromhex(token))
        return 0 if any(plain[8:]) else int.from_bytes(plain[:8], "big")

    def exposed(self) -> dict[Pair, int]:
        """(account, record, field) -> moment of its first exposure line."""
        first: dict[Pair, int] = {}
        for chain, seq, kind, at, policy, account, entry, *_ in self.lines:
            del chain, seq, policy
            if kind == "exposure":
                pair = (self.accounts[account], *self.entries[entry])
                first[pair] = min(at, first.get(pair, at))
        return first


def read_ledger(store: raw.Raw, directory: Path) -> Ledger:
    """Read what the checks need; ``directory`` has the key file."""
    seals = Unsealing(store, directory)
    entries = store.rows(
        "SELECT e.id, r.key, f.name, r.pseudonym, f.id, r.id, r.key_id FROM entry e"
        " JOIN record r ON r.id = e.record_id JOIN field f ON f.id = e.field_id"
    )
    accounts = store.rows("SELECT id, connector, name, adversary_id FROM account")
    tasks = store.rows("SELECT id, entry_id, account_id, outbox_id, state FROM task")
    answers = store.rows(
        "SELECT task_id, entry_id, account_id, raw, valid, key_id FROM answer"
    )
    return Ledger(
        accounts={n: f"{connector}/{name}" for n, connector, name, _ in accounts},
        adversaries={row[0]: row[3] for row in accounts},
        entries={
            row[0]: (
                seals.value("record.key", row[5], row[6], row[1]).decode(),
                row[2],
            )
            for row in entries
        },
        names={row[0]: f"{row[3]}.{row[4]}" for row in entries},
        lines=store.rows(
            "SELECT chain_id, seq, kind, at, policy_version, account_id, entry_id,"
            " cause, body, hash FROM ledger_line ORDER BY chain_id, seq"
        ),
        tasks={row[0]: row[1:] for row in tasks},
        answers={
            r[0]: (*r[1:3], seals.value("answer.raw", r[0], r[5], r[3]).decode(), r[4])
            for r in answers
        },
        outbox={
            row[0]: row[1:]
            for row in store.rows("SELECT id, kind, state, account_id FROM outbox")
        },
        chains={
            row[0]: row[1:]
            for row in store.rows("SELECT id, name, seq, head FROM chain")
        },
        task_key=seals.setting(
            "task-key",
            bytes(store.value("SELECT value FROM setting WHERE name = 'task-key'")),
        ),
    )


@dataclass
class Findings:
    """What was found wrong, and how much was looked at."""

    wrong: list[str] = field(default_factory=list)
    looked: dict[str, int] = field(default_factory=dict)

    def expect(self, good: bool, told: str) -> None:
        if not good:
            self.wrong.append(told)


def check(scene: Scene) -> Findings:
    """Check everything that can be checked while nothing runs."""
    found = Findings()
    facts = diary.read_all(scene.diaries)
    with raw.opened(scene.directory, scene.store) as store:
        ledger = read_ledger(store, scene.directory)
        left = store.value("SELECT count(*) FROM quarantine")
    found.expect(left == 0, f"{left} rows are in quarantine")
    check_shown(found, ledger, facts)
    check_answers(found, ledger, facts)
    check_tasks(found, ledger)
    check_limits(found, ledger, facts, scene.known)
    check_chains(found, ledger)
    check_batches(found, ledger, facts, scene.directory / "spool")
    return found


def check_shown(found: Findings, ledger: Ledger, facts: Facts) -> None:
    """Every crop has an exposure no later than its first byte; every page its task."""
    exposed = ledger.exposed()
    seen: set[Pair] = set()
    for account, mine in facts.items():
        for fact in mine:
            if fact["what"] == "unreadable":
                found.expect(False, f"{account} was shown what is no crop: {fact}")
            if fact["what"] in ("task", "part", "seen"):
                task = ledger.tasks.get(ledger.task_of(fact["token"]))
                if task is None:
                    found.expect(False, f"{account}: task of a page is lost: {fact}")
                    continue
                found.expect(
                    ledger.accounts[task[1]] == account, f"another's task: {fact}"
                )
                pair = (account, *ledger.entries[task[0]])
                moment = exposed.get(pair, 2**63)
                first: int = fact["first"] if "first" in fact else fact["at"]
                found.expect(
                    moment <= first,
                    f"{pair} was shown before its exposure, or without one: {fact}",
                )
            if fact["what"] == "seen":
                seen.add(pair)
                found.expect(
                    pair[1:] == (fact["record"], fact["field"]), f"wrong crop: {fact}"
                )
    found.looked["crops seen"] = len(seen)
    found.looked["exposures"] = sum(line[2] == "exposure" for line in ledger.lines)


def check_answers(found: Findings, ledger: Ledger, facts: Facts) -> None:
    """Confirmed answers are there as given; none is there that nobody gave."""
    said: dict[int, set[str]] = defaultdict(set)
    confirmed: set[int] = set()
    for account, mine in facts.items():
        for fact in mine:
            if fact["what"] == "refused-row":
                found.expect(False, f"{account}: a report refused a row: {fact}")
            if fact["what"] == "saying":
                said[ledger.task_of(fact["token"])].add(fact["answer"])
            if fact["what"] == "confirmed":
                task = ledger.task_of(fact["token"])
                confirmed.add(task)
                kept = ledger.answers.get(task)
                found.expect(
                    kept is not None
                    and ledger.accounts[kept[1]] == account
                    and (kept[2], kept[3]) == (fact["answer"], 1),
                    f"{account}: a confirmed answer is lost or changed: {fact['token']}",
                )
    for task, (entry, account, text, _) in ledger.answers.items():
        found.expect(text in said[task], f"nobody gave the answer of task {task}")
        own = ledger.tasks[task]
        found.expect(own[:2] == (entry, account), f"answer of another task: {task}")
        found.expect(
            own[3] == "answered", f"task {task} has an answer, but is {own[3]}"
        )
    found.looked["answers"] = len(ledger.answers)
    found.looked["answers confirmed"] = len(confirmed)


def check_tasks(found: Findings, ledger: Ledger) -> None:
    """Nothing is doubled: one task a pair, ever; answered means answered."""
    pairs = Counter(
        (entry, ledger.adversaries[account])
        for entry, account, *_ in ledger.tasks.values()
    )
    doubled = [pair for pair, count in pairs.items() if count > 1]
    found.expect(not doubled, f"tasks are doubled: {doubled[:5]}")
    for task, (_, _, _, state) in ledger.tasks.items():
        kept = task in ledger.answers
        found.expect(kept or state != "answered", f"the answer of task {task} is lost")
    lines = Counter(
        (line[0], line[6]) for line in ledger.lines if line[2] == "exposure"
    )
    again = sum(count - 1 for count in lines.values())
    found.expect(not again, f"{again} exposures are booked twice")
    found.expect(
        set(lines) == {(chain, entry) for entry, chain in pairs},
        "exposures and tasks are not of the same pairs",
    )
    found.looked["tasks"] = len(ledger.tasks)


def check_limits(
    found: Findings, ledger: Ledger, facts: Facts, known: Mapping[str, WrittenBox]
) -> None:
    """t and the policy's sets, over the ledger and again over the diaries."""
    fields = {(w.rx_id, w.field): w for w in known.values()}
    booked: dict[str, set[WrittenBox]] = defaultdict(set)
    for account, record, name in ledger.exposed():
        booked[account].add(fields[record, name])
    saw = {
        account: {fields[f["record"], f["field"]] for f in mine if f["what"] == "seen"}
        for account, mine in facts.items()
    }
    for source, held in (("ledger", booked), ("diaries", saw)):
        shown = Counter(written for mine in held.values() for written in mine)
        most = max(shown.values(), default=0)
        found.expect(most <= SHOWINGS, f"{source}: a field was shown {most} times")
        for account, mine in held.items():
            whole = complete_sets(mine)
            found.expect(not whole, f"{source}: {account} holds complete sets: {whole}")
    found.looked["most showings of a field"] = most


def complete_sets(held: set[WrittenBox]) -> list[str]:
    """Sets of the prescriptions policy that one person holds whole."""
    of_person: dict[str, list[str]] = defaultdict(list)
    of_record: dict[str, set[str]] = defaultdict(set)
    for written in held:
        of_person[written.patient_id].append(written.field)
        of_record[written.rx_id].add(written.field)
    whole = []
    for person, had in of_person.items():
        medical = [name for name in had if name in ("disease", "drug")]
        if ("patient_name" in had and medical) or len(medical) > 2:
            whole.append(person)
    for record, names in of_record.items():
        if names >= {"doctor", "drug"} or names >= {"gender", "zip", "birth_date"}:
            whole.append(record)
    return whole


def check_chains(found: Findings, ledger: Ledger) -> None:
    """Every chain's hashes, made anew from the rows."""
    heads: dict[int, tuple[int, str, int]] = {}
    for line in ledger.lines:
        chain, seq, kind, at, policy, account, entry, cause, body, kept = line
        last, prev, before = heads.get(chain, (0, "0" * 64, 0))
        name = ledger.chains[chain][0]
        members = json.loads(body) if body else {}
        members |= {"chain": name, "seq": seq, "prev": prev, "kind": kind, "at": at}
        if name != "system":
            members["policy"] = policy
        if kind == "exposure":
            members |= {"account": ledger.accounts[account], "cause": cause}
            members["entry"] = ledger.names[entry]
        text = prev + json.dumps(
            members, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        digest = hashlib.sha256(text.encode()).digest()
        found.expect(
            digest == bytes(kept) and seq == last + 1 and at >= before,
            f"chain {name} breaks at line {seq}",
        )
        heads[chain] = (seq, digest.hex(), at)
    for chain, (name, seq, head) in ledger.chains.items():
        last, own, _ = heads.get(chain, (0, "0" * 64, 0))
        found.expect((seq, head) == (last, own), f"chain {name} has another head")
    found.looked["ledger lines"] = len(ledger.lines)


def check_batches(found: Findings, ledger: Ledger, facts: Facts, spool: Path) -> None:
    """One directory a message, with the tasks of that message and no other."""
    carried: dict[int, list[Path]] = defaultdict(list)
    homes: dict[int, list[Path]] = defaultdict(list)
    for batch in spool.glob("[!.]*/batch-*"):
        with (batch / "tasks.csv").open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
        messages = {ledger.tasks[ledger.task_of(row["task"])][2] for row in rows}
        found.expect(len(messages) == 1, f"{batch.name} mixes messages {messages}")
        homes[messages.pop()].append(batch)
        for row in rows:
            carried[ledger.task_of(row["task"])].append(batch)
            there = (batch / row["file"]).is_file()
            found.expect(there, f"{batch.name} lacks a crop")
    for message, (kind, state, account) in ledger.outbox.items():
        if kind == "publish":
            own = homes.pop(message, [])
            wanted = [ledger.accounts[account].partition("/")[2]]
            found.expect(
                [batch.parent.name for batch in own] == wanted and state == "sent",
                f"message {message} ({state}) has not exactly its own directory",
            )
    found.expect(not homes, f"batches of no message: {sorted(homes)}")
    pushed = {n: 1 for n, row in ledger.tasks.items() if row[2] is not None}
    found.expect(
        {task: len(mine) for task, mine in carried.items()} == pushed,
        "batches and tasks do not fit one to one",
    )
    batches: dict[Pair, set[str]] = defaultdict(set)
    for account, mine in facts.items():
        for fact in mine:
            if "batch" in fact and fact["what"] == "seen":
                batches[account, fact["record"], fact["field"]].add(fact["batch"])
    twice = [pair for pair, own in batches.items() if len(own) > 1]
    found.expect(not twice, f"shown by two batches: {twice[:5]}")
    left = [path.name for path in (spool / ".incoming").iterdir()]
    found.expect(set(left) <= {"clock", "collecting"}, f"left in the spool: {left}")
    found.looked["batches"] = sum(
        kind == "publish" for kind, *_ in ledger.outbox.values()
    )


def check_whole(found: Findings, scene: Scene) -> None:
    """The records come back whole, and the verifier, alone, says VERIFIED."""
    whole, evidence = scene.directory / "whole.csv", scene.directory / "evidence"
    scene.command("records", "reassemble", "-o", str(whole))
    scene.command("audit", "export", str(evidence))
    verifier = subprocess.run(
        [sys.executable, str(ROOT / "dispatcher" / "verifier.py"), str(evidence)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    verdict = (verifier.stdout.splitlines() or ["nothing"])[0]
    found.expect(verdict.startswith("VERIFIED"), f"the verifier says {verdict}")
    with whole.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    records = [row["rx_id"] for row in rows]
    found.expect(sorted(records) == sorted(scene.truth), "records are lost or doubled")
    states = Counter(row[f"{name}_state"] for row in rows for name in FIELDS)
    found.expect(
        set(states) <= {"answered", "conflict"}, f"not all is settled: {states}"
    )
    good = sum(row[f] == scene.truth[row["rx_id"]][f] for row in rows for f in FIELDS)
    share = good / max(1, len(rows) * len(FIELDS))
    found.expect(share > 0.9, f"only {share:.1%} of the fields are as written")
    found.looked["records"] = len(rows)
    found.looked["fields as written"] = good
    found.looked["fields in conflict"] = states["conflict"]
