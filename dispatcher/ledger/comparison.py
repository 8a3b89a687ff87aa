"""Comparison of the store with its ledger: detects edits of what the gate trusts.

The gate does not read the chains. It reads tables that were written with them: accounts
and the adversaries they belong to, records and people, exposure counts. Whoever edits
one of these rows by hand changes who may see what, without any line of the ledger. So
every such column is compared with the lines: each line is hashed again from the rows
that it names, and the content of the lines must match the rows. It is two passes over the
ledger and one over the tables, in one snapshot: bookings go on meanwhile. Showings are
taken in pieces of ``AT_ONCE`` lines or one adversary's, whichever is more, so that the
memory it takes does not grow with the ledger.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dispatcher.core import progress
from dispatcher.core.canonical import NO_HASH, canonical, line_hash
from dispatcher.core.errors import StoreEdited
from dispatcher.core.keys import entry_name
from dispatcher.ledger import count_updates
from dispatcher.ledger.active_policy import ActivePolicy, current_policy
from dispatcher.ledger.chains import SYSTEM, whole_line
from dispatcher.ledger.count_updates import counts_whole
from dispatcher.ledger.lines import ExposureForm, adversary_name, seal_root
from dispatcher.ledger.links import functions_sha256
from dispatcher.ledger.loads import read_facts
from dispatcher.ledger.shipping.rendering import render
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import (
    Store,
    accounts,
    audit,
    entry_registrations,
    ledger,
    relations,
)
from dispatcher.store import comparison as rows
from dispatcher.store import policies as policy_rows
from dispatcher.store.comparison import Showings
from dispatcher.store.entry_registrations import KnownEntry
from dispatcher.store.ledger import ChainRow
from dispatcher.store.transaction import Row, Tx

Ints = npt.NDArray[np.int64]

SHOWN: Final = 3
"""Ids of rows that a message names, at most."""

AT_ONCE: Final = 20_000
"""Lines whose showings are compared together, about; some 300 bytes for each."""

_COLUMNS: Final = ("subject_id", "time", "vector", "visits")
"""Members of a line of facts after the entry's name, as columns of an entry."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows that differ from the ledger in one column; contains no value.

    Attributes
    ----------
    column : str
        ``TABLE.COLUMN``; a table alone where rows are missing, or too many.
    ids : tuple of int or str
        Ids of the rows, names of chains, or ``CHAIN/SEQ`` of lines, in order.
    """

    column: str
    ids: tuple[int | str, ...]

    @property
    def of_lines(self) -> bool:
        """Whether the chains themselves are inconsistent."""
        return self.column.partition(".")[0] in ("ledger_line", "chain")

    def __str__(self) -> str:
        named = ", ".join(map(str, self.ids[:SHOWN]))
        more = f" and {len(self.ids) - SHOWN:,} more" if len(self.ids) > SHOWN else ""
        return f"{self.column} ({named}{more})"


@dataclass(frozen=True)
class Compared:
    """Result of a comparison.

    Attributes
    ----------
    differences : tuple of Difference
        None in a store that nobody edited.
    facts : Mapping of int to KnownEntry
        By entry whose row differs: its facts in the ledger.
    links : list of (int, str, str, str) or None
        Where the rows of links differ: first version, relation and two pseudonyms of
        each link in the ledger.
    """

    differences: tuple[Difference, ...] = ()
    facts: Mapping[int, KnownEntry] = field(default_factory=dict)
    links: list[tuple[int, str, str, str]] | None = None


def compare(tx: Tx) -> Compared:
    """Compare all that the gate trusts with the ledger (grows with both).

    Parameters
    ----------
    tx : Tx
        A read transaction: lines and tables are one snapshot.
    """
    return _Comparison(tx).compare()


def refuse_edited(store: Store) -> None:
    """Refuse a store that was edited beside its ledger.

    Raises
    ------
    StoreEdited
    """
    with store.read() as tx:
        found = compare(tx).differences
    if found:
        raise edited(found)


def edited(found: Sequence[Difference]) -> StoreEdited:
    """Return the error for a store that differs from its ledger."""
    columns = ", ".join(one.column for one in found)
    return StoreEdited(
        f"the store is not as its ledger says: {'; '.join(map(str, found))}",
        why="Somebody wrote into its tables past the program. The gate trusts them: "
        "what must stay apart could be shown to one worker.",
        fix="Keep the store as it is. Restore a backup from before the change, with what "
        "was shown since: dispatcher backup restore BACKUP --replay-ledger",
        facts={"columns": columns, "rows": sum(len(one.ids) for one in found)},
    )


@dataclass
class _Chain:
    """Content of the lines of one chain."""

    name: str
    id: int = SYSTEM_CHAIN
    seq: int = 0
    head: str = NO_HASH
    at: int = 0
    policy: int = 0
    sealed_head: str = NO_HASH
    end: int | None = None  # the line that ends it in a join
    joins: list[tuple[int, list[str]]] = field(default_factory=list)  # by line
    members: list[tuple[str, str]] = field(default_factory=list)


class _Other(NamedTuple):
    """A line that is no exposure; ``entry`` by its ledger name."""

    seq: int
    kind: str
    at: int
    version: int
    account: int | None
    entry: str | None
    showing: int | None
    body: str | None


class _Comparison:
    """One comparison in progress."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.found: dict[str, list[int | str]] = defaultdict(list)
        self.chains: dict[str, _Chain] = {}
        self.accounts = {account.id: account for account in accounts.all_accounts(tx)}
        self.versions: list[dict[str, Any]] = []
        self.loads: dict[int, tuple[int, dict[str, Any]]] = {}  # version, body
        self.sealed: dict[str, int] = {}
        self.root: tuple[str, str] | None = None
        self.facts: dict[int, KnownEntry] = {}
        self.links: list[tuple[int, str, str, str]] | None = None

    def compare(self) -> Compared:
        known = ledger.all_chains(self.tx)
        names = {chain.id: chain.name for chain in known}
        every = progress.counted(
            rows.lines(self.tx), "lines", lambda: sum(chain.seq for chain in known)
        )
        # Chain ``system`` comes first: it shows how far the others are sealed.
        for number, lines in groupby(every, itemgetter(0)):
            name = names.get(number, adversary_name(number))
            self.chains[name] = chain = _Chain(name, number)
            self._lines(chain, lines)
        self._policies()
        self._loads()
        survivors = self._heads()
        self._seal()
        self._members(survivors)
        for column, ids in rows.awry(self.tx).items():
            self._note(column, ids)
        self._showings(survivors)
        return Compared(
            tuple(
                Difference(name, tuple(ids)) for name, ids in sorted(self.found.items())
            ),
            self.facts,
            self.links,
        )

    def _note(self, column: str, ids: Iterable[int | str]) -> None:
        """Record differing rows, if there are any."""
        for one in ids:
            self.found[column].append(one)

    # -- lines -----------------------------------------------------------------

    def _lines(self, chain: _Chain, lines: Iterable[Row]) -> None:
        """Hash the lines of a chain again from the rows they name, and read them."""
        sealed = self.sealed.get(chain.name, 0)
        form_of: tuple[object, ...] = ()
        before = middle = ""
        sha256, head, expected = hashlib.sha256, chain.head, 1
        for (
            _, seq, kind, at, version, account, cause, showing, body, own, name,
        ) in lines:  # fmt: skip
            if kind == "exposure":
                key = (account, at, cause, version)
                if key != form_of:
                    form_of = key
                    before, middle = self._form(chain.name, *key)
                text = f'{head}{before}{name}{middle}{head}","seq":{seq}}}'
                mine = sha256(text.encode()).digest()
            else:
                other = _Other(seq, kind, at, version, account, name, showing, body)
                mine = self._other(chain, head, other)
            if mine != own or seq != expected:
                self.found["ledger_line"].append(f"{chain.name}/{seq}")
            head, expected = own.hex(), seq + 1
            chain.at, chain.policy = at, version
            if seq == sealed:
                chain.sealed_head = head
        chain.head, chain.seq = head, expected - 1

    def _form(
        self, chain: str, account: int | None, at: int, cause: str | None, version: int
    ) -> tuple[str, str]:
        found = self.accounts.get(account or 0)
        text = "" if found is None else found.text
        form = ExposureForm.of(
            account=text, at=at, cause=cause or "", chain=chain, policy=version
        )
        return form.before, form.middle

    def _other(self, chain: _Chain, prev: str, row: _Other) -> bytes:
        """Hash and read a line that is no exposure; return b"" if it is malformed."""
        body = row.body or "{}"
        try:
            members = json.loads(body)
            line = whole_line(
                chain.name, row.seq, prev, row.kind, row.at, row.version, body
            )
            self._read(chain, row.seq, prev, row.kind, members)
            known = self.accounts.get(row.account or 0)
            account = members["account"] if row.kind == "member" else None
            entry = members["entry"] if row.kind == "unburn" else None
            right = (known and known.text, row.entry) == (account, entry)
            right = right and row.showing is None
            right = right and (row.version == 0 or chain.name != SYSTEM)
            return bytes.fromhex(line_hash(prev, line)) if right else b""
        except (KeyError, TypeError, ValueError, AttributeError):
            return b""

    def _read(
        self, chain: _Chain, seq: int, prev: str, kind: str, members: dict[str, Any]
    ) -> None:
        if kind == "member":
            chain.members.append((members["account"], canonical(members["groups"])))
        elif kind == "join":
            first, *others = members["chains"]
            if first == chain.name:
                chain.joins.append((seq, others))
            else:
                chain.end = seq
        elif kind == "policy":
            self.versions.append(members)
        elif kind == "keys":
            self.loads[seq] = len(self.versions), members
        elif kind == "seal":
            self.sealed |= members["heads"]
            self.sealed[SYSTEM] = seq
            self.root = members["root"], prev

    def _heads(self) -> dict[str, str]:
        """Compare heads and seals of chains; return each ended chain's survivor."""
        survivors: dict[str, str] = {}
        for name in sorted(self.chains, key=_number):
            for _, others in self.chains[name].joins:
                for other in others:
                    survivors[other] = survivors.get(name, name)
        known = {chain.name: chain for chain in ledger.all_chains(self.tx)}
        for name in sorted(self.chains.keys() - known.keys()):
            self.found["chain"].append(name)
        for name, row in known.items():
            chain = self.chains.get(name, _Chain(name))
            survivor = survivors.get(name)
            pairs = {
                "name": (name, SYSTEM if row.id == SYSTEM_CHAIN else f"a{row.id}"),
                "seq": (row.seq, chain.seq),
                "head": (row.head, chain.head),
                "at": (row.at, chain.at),
                "policy_version": (row.policy_version, chain.policy),
                "sealed_seq": (row.sealed_seq, self.sealed.get(name, 0)),
                "survivor_id": (row.survivor_id, survivor and _number(survivor)),
            }
            for column, (stored, expected) in pairs.items():
                if stored != expected:
                    self.found[f"chain.{column}"].append(name)
        return survivors

    def _seal(self) -> None:
        """Compare the root of the last seal with the lines that it covers."""
        if self.root is None:
            return
        root, prev = self.root
        heads = {
            name: self.chains[name].sealed_head
            for name in self.sealed
            if name != SYSTEM and name in self.chains
        }
        if seal_root(heads, prev) != root:
            self.found["ledger_line"].append(f"{SYSTEM}/{self.sealed[SYSTEM]}")

    # -- content of which chain ``system`` has digests ----------------------------

    def _policies(self) -> None:
        """Compare applied files, functions of rules, and the version in force."""
        files = {n: (source, sha) for n, source, sha in rows.policies(self.tx)}
        for number, line in enumerate(self.versions, start=1):
            source, sha256 = files.pop(number, (b"", ""))
            own = hashlib.sha256(source).hexdigest()
            if not line["sha256"] == sha256 == own or line["version"] != number:
                self.found["policy"].append(number)
            functions = policy_rows.functions_of(self.tx, number)
            if functions_sha256(functions) != line["functions_sha256"]:
                self.found["rule_table"].append(number)
        self._note("policy", sorted(files))
        last = len(self.versions)
        more = [n for n in rows.versions_with_functions(self.tx) if n > last]
        self._note("rule_table", more)
        if policy_rows.version_in_force(self.tx) != last:
            self.found["policy_lock.policy_version"].append(1)

    def _loads(self) -> None:
        """Compare what was loaded: entries with all facts, fields, and links."""
        facts, links, fields, kept = _Sum(), _Sum(), dict[int, str](), set[int]()
        for load in entry_registrations.all_loads(self.tx):
            kept.add(load.seq)
            if self._is_intact(load):
                facts.add(_fact_texts(load.facts))
                fields |= _field_names(load.keys)
                links.add(_link_texts(load.relations, self.loads[load.seq][0] + 1))
        self._note("key_lines", sorted(self.loads.keys() - kept))
        if any(column.startswith("key_lines") for column in self.found):
            return  # the expected rows are unknown
        names = rows.field_names(self.tx)
        wrong = [n for n, name in fields.items() if names.get(n) != name]
        self._note("field.name", sorted(wrong))
        facts.take(text for _, text in rows.facts(self.tx))
        if facts.total:
            self._differing_entries()
        self._note("record.subject_id", rows.strangers(self.tx))
        links.take(_link_text(*row[1:]) for row in rows.links(self.tx))
        if links.total:
            self._differing_links()

    def _is_intact(self, load: entry_registrations.LoadLines) -> bool:
        """Whether a load's raw lines match their digests; record those that do not."""
        _, line = self.loads.get(load.seq, (0, {}))
        intact = True
        for name in ("keys", "relations", "facts"):
            digest = hashlib.sha256(getattr(load, name)).hexdigest()
            if digest != line.get(f"{name}_sha256"):
                self._note(f"key_lines.{name}", [load.seq])
                intact = False
        repeats = 0 if load.facts else line.get("keys_count")
        if intact and load.repeats != repeats:
            self._note("key_lines.repeats", [load.seq])
        return intact

    def _differing_entries(self) -> None:
        """Find the entries, and their columns, that differ from their load."""
        facts_of = {
            entry_name(facts.record, facts.field_id): facts
            for load in entry_registrations.all_loads(self.tx)
            for facts in read_facts(load.facts)
        }
        for number, text in rows.facts(self.tx):
            name, *mine = _read_text(text)
            facts = facts_of.pop(name, None)
            if facts is None:
                self.found["entry"].append(number)
                continue
            differ = [
                column
                for column, one, other in zip(_COLUMNS, mine, facts[2:], strict=True)
                if one != other
            ]
            for column in differ:
                self.found[f"entry.{column}"].append(number)
            if differ:
                self.facts[number] = facts
        self._note("entry", sorted(facts_of))

    def _differing_links(self) -> None:
        self.links = [
            (self.loads[load.seq][0] + 1, link["relation"], *link["ends"])
            for load in entry_registrations.all_loads(self.tx)
            for link in map(json.loads, load.relations.splitlines())
        ]
        remaining = {
            _link_text(name, one, other, since)
            for since, name, one, other in self.links
        }
        for number, *link in rows.links(self.tx):
            text = _link_text(*link)
            if text not in remaining:
                self.found["link"].append(number)
            remaining.discard(text)
        if remaining:
            self.found["link"].append(f"{len(remaining)} missing")

    # -- who is one adversary ----------------------------------------------------

    def _members(self, survivors: Mapping[str, str]) -> None:
        """Compare accounts with the member lines that brought them."""
        remaining: dict[str, tuple[int, str]] = {}
        # Ended chains come first: the survivor may have later lines of an account.
        for name in sorted(self.chains, key=_number, reverse=True):
            adversary = _number(survivors.get(name, name))
            remaining |= {t: (adversary, g) for t, g in self.chains[name].members}
        for account in self.accounts.values():
            member = remaining.pop(account.text, None)
            if member is None:
                self.found["account"].append(account.id)
                continue
            if account.adversary_id != member[0]:
                self.found["account.adversary_id"].append(account.id)
            if account.groups != member[1]:
                self.found["account.groups"].append(account.id)
        self._note("account", sorted(remaining))

    # -- showings, and the summaries made of them ---------------------------------

    def _showings(self, survivors: Mapping[str, str]) -> None:
        """Compare what was shown, piece by piece, with tasks and summaries."""
        # Summaries that differ follow from other findings, if there are any.
        force = None if self.found else current_policy(self.tx)
        awry: list[int] = []  # adversaries whose summary differs
        accounts: set[int] = set()
        adversaries: set[int] = set()
        for piece in self._pieces(survivors):
            shown = rows.showings(self.tx, [chain.id for chain in piece])
            mine = np.unique(shown["account"]).tolist()
            self._tasks(rows.tasks(self.tx, mine), shown)
            accounts |= set(mine)
            held = self._held(piece, survivors, shown)
            if not self.found:
                awry += self._summaries(force, held, shown)
            adversaries |= held.keys()
        others = sorted(set(rows.accounts_of_tasks(self.tx)) - accounts)
        self._tasks(rows.tasks(self.tx, others), rows.showings(self.tx, []))
        if self.found:
            return
        awry += sorted(set(relations.holders(self.tx)) - adversaries)
        self._note("exposure_count", map(adversary_name, awry))
        if force is not None and (
            count := count_updates.differing_visits(self.tx, force)
        ):
            self._note("visit", [f"{count:,} rows"])
        if force is not None and (
            count := count_updates.differing_sums(self.tx, force)
        ):
            self._note("disclosure_sum", [f"{count:,} rows"])

    def _pieces(self, survivors: Mapping[str, str]) -> Iterator[list[_Chain]]:
        """Yield chains so that all those of one adversary are in one piece."""
        families: dict[str, list[_Chain]] = defaultdict(list)
        for name, chain in self.chains.items():
            if chain.id != SYSTEM_CHAIN:
                families[survivors.get(name, name)].append(chain)
        piece: list[_Chain] = []
        lines = 0
        for family in families.values():
            piece += family
            lines += sum(chain.seq for chain in family)
            if lines >= AT_ONCE:
                yield piece
                piece, lines = [], 0
        if piece:
            yield piece

    def _held(
        self, piece: Sequence[_Chain], survivors: Mapping[str, str], shown: Showings
    ) -> dict[int, Ints]:
        """Compare which exposures count as showings; return what is held by whom."""
        every: dict[str, Ints] = {}
        # Ended chains come first: what they hold goes on to their survivors.
        for chain in sorted(piece, key=lambda chain: chain.id, reverse=True):
            own = shown[
                slice(*np.searchsorted(shown["chain"], [chain.id, chain.id + 1]))
            ]
            entry, seq = own["entry"], own["seq"]
            mine, first = np.unique(entry, return_index=True)
            new = np.zeros(len(own), np.int64)
            new[first] = 1
            for at, others in chain.joins:
                joined = np.concatenate([every.get(one, _NONE) for one in others])
                new[(seq > at) & np.isin(entry, joined)] = 0
                mine = np.union1d(mine, joined)
            every[chain.name] = mine
            wrong = new != own["showing"]
            if chain.end is not None:
                wrong &= seq < chain.end
            named = (f"{chain.name}/{n}" for n in seq[wrong].tolist())
            self._note("ledger_line.showing", named)
        return {
            chain.id: every[chain.name]
            for chain in piece
            if chain.name not in survivors
        }

    def _summaries(
        self, force: ActivePolicy | None, held: Mapping[int, Ints], shown: Showings
    ) -> list[int]:
        """Return adversaries whose summary is not what it is computed from."""
        kept = rows.exposure_counts(self.tx, sorted(held))
        made = kept[:0]
        if force is not None:
            _, first = np.unique(shown["entry"], return_index=True)
            facts = ("entry", "record", "field", "subject", "time")
            entries = np.stack([shown[name][first] for name in facts], axis=1)
            made = counts_whole(force, held, entries)
        if np.array_equal(made, kept):
            return []
        both = np.concatenate([made, kept])
        alone, times = np.unique(both, axis=0, return_counts=True)
        return [int(one) for one in np.unique(alone[times == 1, 0])]

    def _tasks(self, table: Ints, shown: Showings) -> None:
        """Compare tasks (id, account, entry) with the exposures they were booked with."""
        both = np.concatenate(
            [table[:, 1:], np.stack([shown["account"], shown["entry"]], axis=1)]
        )
        _, pair = np.unique(both, axis=0, return_inverse=True)
        asked, booked = np.split(pair.reshape(-1), [len(table)])
        # Each exposure makes one task; a store that was lost has fewer of them.
        tasks, exposures = (
            np.bincount(n, minlength=len(both)) for n in (asked, booked)
        )
        self._note("task.entry_id", table[(tasks > exposures)[asked], 0].tolist())


_NONE: Final = np.empty(0, np.int64)


class _Sum:
    """A multiset checksum: 0 once each text was taken as often as it was added.

    Python hashes texts under a key of each process, which nobody knows beforehand.
    """

    def __init__(self) -> None:
        self.total = 0

    def add(self, texts: Iterable[str]) -> None:
        self.total += sum(map(hash, texts))

    def take(self, texts: Iterable[str]) -> None:
        self.total -= sum(map(hash, texts))


_FIELD: Final = re.compile(rb'"entry":"[^".]+\.([0-9]+)","field":("(?:[^"\\]|\\.)*")')


def _field_names(keys: bytes) -> dict[int, str]:
    """Names of the fields in lines of keys, by number."""
    found = set(_FIELD.findall(keys))
    return {int(number): json.loads(name) for number, name in found}


def _link_text(relation: str, one: str, other: str, version: int) -> str:
    return f"{version}{canonical({'relation': relation, 'ends': [one, other]})}"


def _link_texts(lines: bytes, version: int) -> list[str]:
    return [f"{version}{line}" for line in lines.decode().splitlines()]


def _fact_texts(lines: bytes) -> Iterator[str]:
    """Convert a load's facts about each entry to the store's text."""
    for line in lines.splitlines()[1:]:
        record, numbers, *facts = json.loads(line)
        tail = canonical(facts)[1:]
        for number in numbers:
            yield f'["{record}.{number}",{tail}'


def _read_text(text: str | None) -> list[Any]:
    """Parse the text of an entry's facts; a malformed one names no entry."""
    try:
        found = json.loads(text or "")
    except ValueError:
        found = []
    return found if len(found) == 1 + len(_COLUMNS) else [""]


def _number(name: str) -> int:
    """Id of a chain; 0 for ``system``, and for a name that no store makes."""
    return int(name[1:]) if name[1:].isdecimal() else SYSTEM_CHAIN


def chain_ends_hold(tx: Tx, *, lines: int, every: bool = False) -> bool:
    """Whether the last lines of chains are unchanged.

    Parameters
    ----------
    tx : Tx
    lines : int
        So many of each chain, at most, >= 1.
    every : bool
        Check all chains; else only chain ``system``.
    """
    chains = [c for c in ledger.all_chains(tx) if every or c.id == SYSTEM_CHAIN]
    return all(_end_holds(tx, chain, lines) for chain in chains)


def _end_holds(tx: Tx, chain: ChainRow, lines: int) -> bool:
    after = max(0, chain.seq - lines)
    prev = audit.hash_at(tx, chain.id, after) if after else NO_HASH
    if prev is None:
        return False
    seq = after
    rows = audit.lines_up_to(tx, chain.id, chain.seq, after=after)
    try:
        for row, text, _ in render(rows, chain.name, prev):
            line = json.loads(text)
            own = line.pop("hash")
            if row.seq != seq + 1 or line_hash(prev, line) != own:
                return False
            seq, prev = row.seq, own
    except (AssertionError, ValueError):  # a dangling reference
        return False
    return (seq, prev) == (chain.seq, chain.head)
