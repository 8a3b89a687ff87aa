"""Evidence: the bundle that an auditor checks without us, and the check itself.

The bundle ends at a seal: it contains everything up to it and nothing after it, so that
bookings go on while it is written. No field value is in it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, TextIO

from dispatcher.core import progress
from dispatcher.core.canonical import NO_HASH, canonical
from dispatcher.core.errors import Conflict
from dispatcher.core.private_files import private
from dispatcher.ledger.active_policy import ActivePolicy, version_of
from dispatcher.ledger.audit_replay import AdversaryState, Replay
from dispatcher.ledger.chains import SYSTEM, Seal, seal
from dispatcher.ledger.comparison import compare
from dispatcher.ledger.links import tables_text
from dispatcher.ledger.refusals import Cause
from dispatcher.ledger.shipping.rendering import render
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import (
    Clock,
    Store,
    audit,
    audit_log,
    comparison,
    entry_registrations,
    relations,
)
from dispatcher.store import policies as policy_rows
from dispatcher.store.audit import LineRow
from dispatcher.store.ledger import FactsRow
from dispatcher.store.transaction import Tx

VERIFIER: Final = Path(__file__).resolve().parent.parent / "verifier.py"
"""The program that checks a bundle: one file, alone."""

ASSUMED: Final = (
    "accounts that are in no common group and were not joined do not collude",
    "identities are as registered",
)
ASSUMED_OF_CROPS: Final = (
    "a crop holds no value of a field but of those that its box was declared for; boxes "
    "that a record brought itself were compared when it was loaded"
)


@dataclass(frozen=True)
class Bundle:
    """Summary of an exported bundle.

    Attributes
    ----------
    folder : Path
    root : str
        Root of the seal: whoever notes it down detects any later rewrite.
    lines : int
        Ledger lines.
    counts : dict of str to int
        As in the certificate.
    acts : int
        Lines of the audit log.
    last_act : str
        Hash of the last of them: whoever notes it down detects any later rewrite.
    """

    folder: Path
    root: str
    lines: int
    counts: dict[str, int]
    acts: int
    last_act: str


@dataclass(frozen=True)
class VerifierResult:
    """Result of the verifier.

    Attributes
    ----------
    status : int
        0 verified, 1 violated, 2 broken.
    text : str
        All that it printed.
    """

    status: int
    text: str

    @property
    def first(self) -> str:
        """Return the verdict itself."""
        return self.text.partition("\n")[0]


def export(store: Store, folder: Path, *, clock: Clock) -> Bundle:
    """Write a seal, then the evidence up to it.

    Parameters
    ----------
    store : Store
    folder : Path
        Made by this; it may be there, but empty.
    clock : Clock

    Raises
    ------
    Conflict
        The folder is not empty, or another export is writing it.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Conflict(
            f"{folder} is not empty",
            why="Evidence is written whole into a folder of its own.",
            fix="Name a new folder, or remove that one.",
        )
    now = clock()
    with store.write() as tx:
        sealed = seal(tx, at=now, always=True)
        assert sealed is not None
    partial = folder.with_name(f"{folder.name}.partial")
    try:
        partial.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        raise Conflict(
            f"{partial} is there already",
            why="Another export is writing it, or one was cut off.",
            fix="Remove it if no export is running.",
        ) from None
    try:
        with store.read() as tx:
            bundle = _Writer(tx, sealed, partial).write(now)
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    except (KeyError, TypeError, ValueError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise Conflict(
            "the ledger does not read as it was written",
            why="A line was changed behind the program's back.",
            fix="Compare it with a backup and with evidence exported earlier.",
        ) from error
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return replace(bundle, folder=folder)


class _Writer:
    """One bundle being written."""

    def __init__(self, tx: Tx, sealed: Seal, folder: Path) -> None:
        self.tx, self.sealed, self.folder = tx, sealed, folder
        self.heads: dict[str, str] = {}
        self.joins: dict[tuple[str, ...], dict[str, object]] = {}
        self.kinds: Counter[str] = Counter()
        self.written, self.total = (
            0,
            sum(last for _, last, _ in self.sealed.heads.values()),
        )
        self.accepted = 0
        self.keys_count = 0
        self.policies: dict[int, str] = {}
        self.members: set[str] = set()
        # Rows that were edited since differ from the ledger.
        self.compared = compare(tx)
        edited = bool(self.compared.differences)
        self.people = comparison.subject_ids(tx) if edited else {}

    def write(self, now: int) -> Bundle:
        """Write all files; the certificate last."""
        seq = self.sealed.seq
        with open(self.folder / "keys.jsonl", "xb", opener=private) as file:
            file.writelines(entry_registrations.up_to(self.tx, seq))
        with open(self.folder / "relations.jsonl", "xb", opener=private) as file:
            file.writelines(entry_registrations.up_to(self.tx, seq, relations=True))
        path = self.folder / "ledger.jsonl"
        with open(path, "x", encoding="utf-8", newline="\n", opener=private) as lines:
            self._system(lines)
            versions = {n: version_of(self.tx, n) for n in self.policies}
            replay = Replay(versions, self._links())
            for chain in audit.chains_in_order(self.tx):
                if chain.id in self.sealed.heads:
                    name, last, _ = self.sealed.heads[chain.id]
                    self._chain(lines, replay, chain.id, name, last)
        for number in self.policies:
            row = policy_rows.policy_row(self.tx, number)
            assert row is not None
            self._write(f"policy-{number}.toml", row.source)
            tables = tables_text(policy_rows.functions_of(self.tx, number))
            if tables:
                self._write(f"tables-{number}.jsonl", tables.encode())
        counts = self._counts()
        certificate = {
            "format": 1,
            "heads": self.heads,
            "seal": {"seq": seq, "root": self.sealed.root},
            "policies": {str(n): sha256 for n, sha256 in self.policies.items()},
            "counts": counts,
            "joins": [self.joins[chains] for chains in sorted(self.joins)],
            "not_checked": _not_checked(versions),
            "worst": replay.worst(),
            "assumed": _assumed(versions.values()),
            "engine": f"sparsi-dispatcher {_version()}",
            "time": now,
        }
        self._write("cert.json", f"{canonical(certificate)}\n".encode())
        return Bundle(
            self.folder,
            self.sealed.root,
            sum(self.kinds.values()),
            counts,
            *self._acts(),
        )

    def _write(self, name: str, content: bytes) -> None:
        with open(self.folder / name, "xb", opener=private) as file:
            file.write(content)

    def _acts(self) -> tuple[int, str]:
        """Write the audit log; return its lines and the hash of the last."""
        count, prev = 0, NO_HASH
        path = self.folder / "audit.jsonl"
        with open(path, "x", encoding="utf-8", newline="\n", opener=private) as file:
            for line in audit_log.lines_after(self.tx):
                members = audit_log.members_of(line, prev)
                count, prev = count + 1, line.hash.hex()
                file.write(canonical({**members, "hash": prev}) + "\n")
        return count, prev

    def _as_told(self, entry: FactsRow) -> FactsRow:
        """Return an entry with the ledger's facts where its row was edited."""
        facts = self.compared.facts.get(entry.id)
        if facts is None:
            return entry
        subject = None if facts.subject is None else self.people.get(facts.subject)
        return entry._replace(
            subject_id=subject, time=facts.time, place=facts.place, visits=facts.visits
        )

    def _links(self) -> Iterable[tuple[int, str, int, int]]:
        """Return links between loaded people, as the ledger has them."""
        links = self.compared.links
        if links is None:
            return relations.links_by_version(self.tx)
        of = self.people
        return [
            (since, name, of[one], of[other])
            for since, name, one, other in links
            if one in of and other in of
        ]

    def _count_links(self, version: int) -> int:
        links = self.compared.links
        if links is None:
            return relations.count_up_to(self.tx, version)
        return sum(since <= version for since, *_ in links)

    def _counts(self) -> dict[str, int]:
        ended = sum(len(chains) - 1 for chains in self.joins)
        repeats = entry_registrations.repeats_up_to(self.tx, self.sealed.seq)
        return {
            "accepted": self.accepted,
            "accounts": len(self.members),
            "adversaries": len(self.sealed.heads) - ended,
            "entries": self.keys_count - repeats,
            "exposures": self.kinds["exposure"],
            "joins": len(self.joins),
            "links": self._count_links(max(self.policies, default=0)),
            "seals": self.kinds["seal"],
        }

    def _lines(
        self, chain_id: int, name: str, last: int
    ) -> Iterator[tuple[LineRow, str, dict[str, object] | None]]:
        """Yield a chain's lines: row, text in evidence, members unless an exposure."""
        prev = NO_HASH
        rows = audit.lines_up_to(self.tx, chain_id, last)
        for row, text, line in render(rows, name, prev):
            self.kinds[row.kind] += 1
            self.written += 1
            if self.written % progress.REPORTED == 0:
                progress.report(self.written, self.total, "lines")
            yield row, text, line
            prev = row.hash.hex()
        self.heads[name] = prev

    def _system(self, file: TextIO) -> None:
        for row, text, line in self._lines(SYSTEM_CHAIN, SYSTEM, self.sealed.seq):
            file.write(text + "\n")
            assert line is not None
            if row.kind == "policy":
                self.policies[int(str(line["version"]))] = str(line["sha256"])
                self._accept(line)
            elif row.kind == "keys":
                self.keys_count += int(str(line["keys_count"]))

    def _chain(
        self, file: TextIO, replay: Replay, chain_id: int, name: str, last: int
    ) -> None:
        who = replay.begin()
        for row, text, line in self._lines(chain_id, name, last):
            file.write(text + "\n")
            if line is None:
                assert row.entry is not None
                entry = self._as_told(row.entry)
                replay.expose(who, name, row.seq, row.policy_version, entry)
            else:
                self._change(replay, who, name, row, line)
        if name not in replay.ended:
            replay.advance(who, name, max(self.policies, default=0))

    def _change(
        self,
        replay: Replay,
        who: AdversaryState,
        chain: str,
        row: LineRow,
        line: dict[str, object],
    ) -> None:
        place = who, chain, row.seq, row.policy_version
        if row.kind == "member":
            groups = line["groups"]
            assert isinstance(groups, list)
            account = str(line["account"])
            self.members.add(account)
            self._accept(line)
            replay.member(*place, account, groups)
            return
        names = line["chains"]
        assert isinstance(names, list)
        if chain == names[0]:
            joined = {member: line[member] for member in ("because", "cause", "chains")}
            self.joins[tuple(names)] = joined
            self._accept(line)
            replay.join(*place, names[1:])
        else:
            replay.end(*place)

    def _accept(self, line: dict[str, object]) -> None:
        """Count what a line accepts; a join only in the surviving chain."""
        listed = line["accepted"]
        assert isinstance(listed, list)
        self.accepted += len(listed)


def _assumed(versions: Iterable[ActivePolicy]) -> list[str]:
    """List what the evidence assumes and cannot show."""
    fields = (f for force in versions for f in force.policy.entity.fields.values())
    cut = any(f.image_column is not None for f in fields)
    return [*ASSUMED, *([ASSUMED_OF_CROPS] if cut else [])]


def _not_checked(versions: Mapping[int, ActivePolicy]) -> list[str]:
    """Name the rules that the verifier leaves out, and the mean over all if it does."""
    unchecked = {
        v: {n for n in force.levels if n not in force.tables}
        for v, force in versions.items()
    }
    names = set().union(*unchecked.values())
    last = versions.get(max(versions, default=0))
    if last and unchecked[last.version] and last.policy.budget.average is not None:
        names.add(Cause.BUDGET_AVERAGE.value)
    return sorted(names)


def _version() -> str:
    try:
        return version("sparsi-dispatcher")
    except PackageNotFoundError:  # run from a checkout
        return "unreleased"


def verify(folder: Path, heads: Sequence[str] = ()) -> VerifierResult:
    """Run the verifier on a bundle, as a process of its own.

    Parameters
    ----------
    folder : Path
    heads : Sequence of str
        Roots of seals that were noted earlier.
    """
    words = [sys.executable, "-I", str(VERIFIER), str(folder.absolute())]
    for head in heads:
        words += ["--head", head]
    done = subprocess.run(  # noqa: S603 (our own file, no shell)
        words, check=False, capture_output=True, encoding="utf-8"
    )
    return VerifierResult(done.returncode, done.stdout or done.stderr)
