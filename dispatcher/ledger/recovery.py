"""Recovery: book shipped lines into a store that lacks them, without judging them.

What was shown stays shown: the lines are booked unchanged, each checked to continue its
chain, and afterwards the store's chains equal those of the files. Records that were
loaded after the backup are gone; their entries come back without values, so that what
was shown of them counts. Loading the records again brings the values back.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dispatcher.core.canonical import canonical, line_hash
from dispatcher.core.errors import LedgerBroken
from dispatcher.ledger import count_updates
from dispatcher.ledger.active_policy import current_policy
from dispatcher.ledger.chains import SYSTEM
from dispatcher.ledger.lines import adversary_name
from dispatcher.ledger.links import parse_functions, read_levels
from dispatcher.ledger.loads import read_facts
from dispatcher.ledger.shipping.segments import ShippedLine
from dispatcher.model import SYSTEM_CHAIN
from dispatcher.store import (
    accounts,
    audit,
    entry_registrations,
    ledger,
    records,
    relations,
)
from dispatcher.store import policies as policy_rows
from dispatcher.store import replaying as rows
from dispatcher.store.entry_registrations import KnownEntry
from dispatcher.store.ledger import ChainRow
from dispatcher.store.policies import TableRow
from dispatcher.store.transaction import Tx
from policies.document import parse
from policies.rules.asks import unsupported

_OWN: Final = frozenset({"chain", "seq", "prev", "kind", "at", "policy", "hash"})
"""Members of a line that have their own columns."""

Members = dict[str, Any]


def replay(tx: Tx, lines: Iterable[ShippedLine], *, at: int) -> int:
    """Book the lines that a store lacks.

    Parameters
    ----------
    tx : Tx
        A write transaction of a store that nobody else uses.
    lines : Iterable of ShippedLine
        The whole shipped ledger, read and checked by
        :func:`dispatcher.ledger.shipping.shipped_lines`.
    at : int
        Now: the time at which values are recorded as lost.

    Returns
    -------
    int
        Lines booked.

    Raises
    ------
    LedgerBroken
        A line does not continue the store's last one or has a wrong hash; or its
        content is missing. Nothing may be committed: let the error end the transaction.
    """
    replaying = _Replay(tx, at)
    for line in lines:
        replaying.gather(line)
    return replaying.book()


class _Replay:
    """One replay in progress."""

    def __init__(self, tx: Tx, at: int) -> None:
        self.tx, self.at = tx, at
        self.heads = {chain.name: chain for chain in ledger.all_chains(tx)}
        self.known = {name: chain.seq for name, chain in self.heads.items()}
        self.newer: dict[str, deque[bytes]] = defaultdict(deque)
        self.attached: dict[tuple[int, str], list[str]] = defaultdict(list)
        self.entries: dict[str, int] = {}
        self.accounts: dict[str, int] = {}
        self.booked = 0

    def gather(self, line: ShippedLine) -> None:
        """Collect a line if the store lacks it."""
        members = line.members
        if "attached" in members:
            seq = int(members["seq"])
            if seq > self.known.get(SYSTEM, 0):
                self.attached[seq, members["attached"]].append(members["text"])
        elif members["seq"] > self.known.get(members["chain"], 0):
            self.newer[members["chain"]].append(line.raw)

    def book(self) -> int:
        """Book all collected lines."""
        # Versions and loads first: the others name them. Then each adversary, and those
        # that joined it before the join.
        self._drain(SYSTEM)
        for name in sorted(self.newer):
            self._drain(name)
        ledger.save_heads(self.tx, self.heads.values())
        self._seal_heads()
        force = current_policy(self.tx)
        if force is not None:
            count_updates.rebuild(self.tx, force)
        return self.booked

    def _drain(self, name: str) -> None:
        waiting = self.newer[name]
        while waiting:
            line: Members = json.loads(waiting.popleft())
            if line["kind"] == "join" and line["chains"][0] == name:
                for other in line["chains"][1:]:
                    self._drain(other)
            self._line(name, line)

    def _line(self, name: str, line: Members) -> None:
        own = line.pop("hash")
        head = self._head(name)
        if (line["seq"], line["prev"]) != (head.seq + 1, head.head):
            raise _broken(line, "it does not go on from the line before")
        if line_hash(line["prev"], line) != own:
            raise _broken(line, "it does not have its hash")
        account, entry, cause, showing = None, None, None, None
        body: str | None = canonical({k: v for k, v in line.items() if k not in _OWN})
        if line["kind"] == "exposure":
            account, entry = self._account(line), self._entry(line)
            cause, body = str(line["cause"]), None
            showing = int(not rows.holds(self.tx, head.survivor_id or head.id, entry))
        elif line["kind"] == "member":
            account = self._member(head, line)
        elif line["kind"] == "unburn":
            entry = self._entry(line)
        row = (
            head.id, line["seq"], line["kind"], line["at"], line.get("policy", 0),
            account, entry, cause, showing, body, bytes.fromhex(own),
        )  # fmt: skip
        ledger.add_lines(self.tx, [row])
        self.heads[name] = head._replace(
            seq=line["seq"],
            head=own,
            at=line["at"],
            policy_version=line.get("policy", head.policy_version),
        )
        self.booked += 1
        self._after(name, line)

    def _after(self, name: str, line: Members) -> None:
        """Apply a line's effects on other tables."""
        kind = line["kind"]
        if kind == "policy":
            self._policy(line)
        elif kind == "keys":
            self._keys(line)
        elif kind == "join" and line["chains"][0] == name:
            survivor = self.heads[name]
            for other in line["chains"][1:]:
                ended = self.heads[other]
                accounts.end_adversary(self.tx, ended.id, survivor.id)
                for one, chain in self.heads.items():
                    if ended.id in (chain.id, chain.survivor_id):
                        self.heads[one] = chain._replace(survivor_id=survivor.id)

    def _head(self, name: str) -> ChainRow:
        head = self.heads.get(name)
        if head is None:
            number = int(name[1:]) if name[1:].isdigit() else 0
            if adversary_name(number) != name or number == SYSTEM_CHAIN:
                raise LedgerBroken(
                    f"the shipped ledger has a chain {name} that no store makes",
                    why="Chains of adversaries are a1, a2 and so on.",
                    fix="Put the files back from a copy of them.",
                )
            head = ChainRow(number, name, 0, "0" * 64, 0, 0, 0, None)
            ledger.add_chain(self.tx, head)
            self.heads[name] = head
        return head

    def _account(self, line: Members) -> int:
        text = line["account"]
        if text not in self.accounts:
            connector, _, name = text.partition("/")
            found = accounts.id_of(self.tx, connector, name)
            if found is None:
                raise _broken(line, "its account is no member")
            self.accounts[text] = found
        return self.accounts[text]

    def _member(self, head: ChainRow, line: Members) -> int:
        connector, _, name = line["account"].partition("/")
        groups = canonical(line["groups"])
        found = accounts.id_of(self.tx, connector, name)
        if found is None:
            found = self.tx.reserve("account")
            account = accounts.AccountRow(
                found, connector, name, head.id, groups, "active"
            )
            accounts.add_account(self.tx, account)
        else:
            accounts.set_groups(self.tx, found, groups)
        self.accounts[line["account"]] = found
        return found

    def _entry(self, line: Members) -> int:
        name = line["entry"]
        if name not in self.entries:
            record, _, field = name.rpartition(".")
            found = rows.entry_id(self.tx, record, int(field))
            if found is None:
                raise _broken(line, "its entry was never loaded")
            self.entries[name] = found
        return self.entries[name]

    def _text(self, line: Members, kind: str) -> bytes | None:
        parts = self.attached.pop((line["seq"], kind), None)
        return None if parts is None else "".join(parts).encode()

    def _policy(self, line: Members) -> None:
        source = self._text(line, "policy")
        if source is None or hashlib.sha256(source).hexdigest() != line["sha256"]:
            raise _broken(line, "the policy file of the version is not with it")
        policy = parse(source).policy
        if policy is None:
            raise _broken(line, "the policy cannot be read by this program")
        ledger.number_fields(self.tx, policy.entity.fields)
        version, digest = int(line["version"]), str(line["sha256"])
        policy_rows.put_policy(
            self.tx, version, policy.name, source, digest, line["at"]
        )
        functions = self._functions(line)
        levels = read_levels((row.property, row.levels) for row in functions)
        if unsupported(policy, levels):
            raise _broken(line, "the functions of its rules are not with it")
        policy_rows.add_functions(self.tx, version, functions)

    def _functions(self, line: Members) -> list[TableRow]:
        functions_text = self._text(line, "functions") or b""
        if hashlib.sha256(functions_text).hexdigest() != line["functions_sha256"]:
            raise _broken(line, "the functions of its rules are not with it")
        try:
            return parse_functions(functions_text.decode())
        except (ValueError, TypeError):
            raise _broken(line, "the functions of its rules cannot be read") from None

    def _keys(self, line: Members) -> None:
        again = self._text(line, "keys-again")
        raw = again if again is not None else self._text(line, "keys") or b""
        links = self._text(line, "relations") or b""
        facts = self._text(line, "facts") or b""
        for name, text in (("keys", raw), ("relations", links), ("facts", facts)):
            if hashlib.sha256(text).hexdigest() != line[f"{name}_sha256"]:
                raise _broken(line, f"the {name} of the load are not with it")
        repeats = line["keys_count"] if again is not None else 0
        load = entry_registrations.LoadLines(line["seq"], raw, links, facts, repeats)
        entry_registrations.add(self.tx, load)
        self._lost(read_facts(facts), line["at"])
        version = (
            policy_rows.version_in_force(self.tx) + 1
        )  # they hold from the next one on
        pairs: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for text in links.splitlines():
            link = json.loads(text)
            one, other = link["ends"]
            pairs[link["relation"]].append((one, other))
        for relation, ends in pairs.items():
            relations.add_links(self.tx, relation, ends, version)

    def _lost(self, facts: list[KnownEntry], loaded_at: int) -> None:
        """Write the lost entries of a load, without values."""
        there = rows.entries_of_names(self.tx, {one.record for one in facts})
        for one in facts:
            if (one.record, one.field_id) not in there:
                records.add_lost_entry(self.tx, one, loaded_at, self.at)

    def _seal_heads(self) -> None:
        """Store how far each chain is sealed, from the last seals."""
        sealed: dict[int, int] = {}
        for seq, _, body in audit.seals_after(self.tx, 0):
            sealed[SYSTEM_CHAIN] = seq
            for name, last in json.loads(body)["heads"].items():
                sealed[self.heads[name].id] = last
        ledger.save_sealed(self.tx, sealed.items())


def _broken(line: Mapping[str, Any], why: str) -> LedgerBroken:
    return LedgerBroken(
        f"line {line['seq']} of chain {line['chain']} cannot be replayed",
        why=f"{why[0].upper()}{why[1:]}.",
        fix="Is it the ledger of this store, and whole? Check: dispatcher ledger verify",
    )
