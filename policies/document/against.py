"""What a file of records shows and a policy ignores: POL4xx, ``check --against FILE``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from policies.discovery.dependencies import percent
from policies.discovery.profile import Profile
from policies.document.diagnostic import Diagnostic, listed, shown
from policies.document.draft import Apart, kept_apart
from policies.document.reader import ParseResult
from policies.document.reading import Findings, Reader
from policies.document.source import read
from policies.policy import Policy
from policies.rules.asks import EntryFacts, Finding, compile_rules, judge_ask

ROW_KEY: Final = "row"
"""Key of a policy for records that are told apart by their row: no column of a file."""
STRANGER: Final = "stranger/of-no-group"
SHOWN: Final = 8
"""Combinations that one warning lists."""
FIX: Final = (
    "add a rule that keeps them apart, as `dispatcher policy suggest` drafts it"
)


def check_against(result: ParseResult, profile: Profile) -> tuple[Diagnostic, ...]:
    """Return a warning for all that the records show and no rule of the policy prevents.

    A set of columns is reported if one adversary of no declared group could hold all its
    fields of one record.

    Parameters
    ----------
    result : ParseResult
        A valid policy file.
    profile : Profile
        What the records tell.
    """
    policy, source = result.policy, read(result.text.encode())
    if policy is None or isinstance(source, Diagnostic):
        return ()
    findings = Findings(source)
    root = Reader(findings, (), source.values, "a policy file")
    fields = {
        column.name: column.name
        for column in profile.columns
        if column.name in policy.entity.fields
    }
    check = _Check(policy, root, fields, profile)
    check.columns()
    check.identifiers()
    check.dependencies()
    check.texts()
    return findings.ordered()


class _Check:
    def __init__(
        self, policy: Policy, root: Reader, fields: dict[str, str], profile: Profile
    ) -> None:
        self._policy = policy
        self._root = root
        self._fields = fields
        self._profile = profile
        self._rules = compile_rules(policy)

    def columns(self) -> None:
        """Report what the policy reads and the file lacks: it may be another file's."""
        entity = self._policy.entity
        there = {column.name for column in self._profile.columns}
        read_from = {name: one.column for name, one in entity.fields.items()}
        lacks = [name for name, column in read_from.items() if column not in there]
        names = list(dict.fromkeys(read_from[name] for name in lacks))
        for name in (entity.key, entity.subject):
            if name is not None and name not in (*there, *names, ROW_KEY):
                names.append(name)
        if names:
            self._warn(
                "POL405",
                lacks[0] if lacks else next(iter(entity.fields)),
                f"the file has no column {listed(names, 8)}",
                "the policy reads them; of another file's columns nothing was checked",
                "name the file that this policy is for, or draft one for this file: "
                "dispatcher policy suggest",
            )

    def identifiers(self) -> None:
        """Report what says who somebody is: combinations, and single columns."""
        beside: dict[str, list[Apart]] = {}
        together: dict[str, list[Apart]] = {}
        for apart in kept_apart(self._profile):
            if self._may_be_seen(apart.columns):
                kind, first = (beside, apart.by) if apart.by else (together, "")
                kind.setdefault(first or apart.columns[0], []).append(apart)
        for column, sets in together.items():
            shares = [f"{_joined(one)}: {_singles_out(one)}" for one in sets[:SHOWN]]
            more = len(sets) - SHOWN
            self._warn(
                "POL401",
                column,
                f"a stranger may see {'; '.join(shares)}"
                f"{f'; and {more:,} more combinations' if more > 0 else ''}",
                f"measured on {self._profile.people:,} people: whoever knows these of "
                "somebody knows whose record it is",
                FIX,
            )
        for column, pairs in beside.items():
            others = [name for one in pairs for name in one.columns if name != column]
            self._warn(
                "POL402" if pairs[0].direct else "POL401",
                column,
                f"a stranger may see {shown(column)} with {listed(others, 8)}: "
                f"{pairs[0].reason}",
                f"whoever knows `{shown(column)}` of somebody knows whose record it is",
                FIX,
            )

    def dependencies(self) -> None:
        """Report columns that tell what a rule keeps apart from something."""
        for found in self._profile.dependencies:
            for rule in self._policy.properties.values():
                for fields in rule.alternatives:
                    rest = tuple(name for name in fields if name != found.told)
                    held = tuple(dict.fromkeys([*rest, *found.columns]))
                    if (
                        found.told in fields
                        and rest
                        and not set(held) <= set(fields)
                        and self._may_be_seen(held)
                    ):
                        self._warn(
                            "POL403",
                            found.columns[0],
                            f"a stranger may see {' + '.join(map(shown, held))}: "
                            f"{shown(found)}",
                            f"`{shown(rule.name)}` keeps "
                            f"{' + '.join(map(shown, fields))} apart, which this tells "
                            "as well",
                            f"add {listed(found.columns)} with {listed(rest)} to the "
                            "rules",
                        )

    def texts(self) -> None:
        """Report texts with names or numbers of people in them, shown unmasked."""
        for found in self._profile.names:
            field = self._policy.entity.fields.get(found.column)
            if field is not None and field.send and not field.redact:
                self._warn(
                    "POL404",
                    found.column,
                    f"{percent(found.share)} of the texts of `{shown(found.column)}` have "
                    f"{found.what}",
                    "whoever is shown the text sees them too, whatever the rules keep "
                    "apart",
                    "mark them in the text and mask them with `redact`, or set "
                    "send = false",
                )

    def _may_be_seen(self, columns: Iterable[str]) -> bool:
        """Whether one stranger could hold these fields of one record."""
        names = list(dict.fromkeys(columns))
        fields = self._policy.entity.fields
        if not all(name in self._fields and fields[name].send for name in names):
            return False
        held = dict.fromkeys(((name, 0) for name in names), 1)
        return not any(
            finding.refused for asked in names for finding in self._asked(asked, held)
        )

    def _asked(
        self, asked: str, held: Mapping[tuple[str, int], int]
    ) -> tuple[Finding, ...]:
        """Judge one field of a record of which a stranger holds the others."""
        others = {entry: 1 for entry in held if entry[0] != asked}
        facts = EntryFacts("record", asked, "person")
        return judge_ask(self._rules, facts, others, others, whole_unit=False)

    def _warn(self, code: str, column: str, what: str, why: str, fix: str) -> None:
        path: Sequence[str] = ("entity", self._policy.entity.name, "fields", column)
        self._root.findings.warning(
            code, self._root.key_span(path[0], *path[1:]), what, why, fix
        )


def _joined(apart: Apart) -> str:
    return " + ".join(map(shown, apart.columns))


def _singles_out(apart: Apart) -> str:
    return apart.reason.replace("single out", "singles out", 1)
