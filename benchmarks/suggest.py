"""How good a drafted policy is: on public data sets, against labels made by hand.

    python -m benchmarks.suggest DATA            print the table
    python -m benchmarks.suggest DATA --write    and write it into docs/suggest.md

DATA holds the files that suggest_labels.toml names. For each set a policy is drafted as
`dispatcher policy suggest` does it, and judged as the gate would:

recall
    of what the labels keep apart, how much one stranger cannot be shown together;
beyond
    of what the draft keeps apart, how much the labels do not ask for.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from benchmarks.suggest_held_out import HELD_OUT, HeldOut
from dispatcher.core.errors import Invalid
from dispatcher.operations.discovery import suggest
from dispatcher.stages.intake.opening import open_table
from dispatcher.stages.intake.table import Options
from policies.document import parse, run_test
from policies.policy import Policy, PolicyTest

LABELS = Path(__file__).with_name("suggest_labels.toml")
PAGE = Path(__file__).parents[1] / "docs" / "suggest.md"
LEAST = 0.05
MARK = "<!-- written by python -m benchmarks.suggest DATA --write -->"


@dataclass(frozen=True)
class Row:
    """The result on one data set."""

    name: str
    held_out: bool
    rows: int
    columns: int
    labelled: int
    denied: int
    suggested: int
    beyond: int
    seconds: float
    missed: tuple[frozenset[str], ...]
    extra: tuple[frozenset[str], ...]


def read(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of a file, names stripped."""
    with open_table(path) as table:
        rows: list[list[str]] = []
        columns: tuple[str, ...] = table.columns
        for batch in table.batches:
            columns = batch.columns
            rows.extend([cell.strip() for cell in row] for row in batch.rows)
    return [name.strip() for name in columns], rows


def wanted(labels: dict, columns: list[str], rows: list[list[str]]) -> set[frozenset]:
    """Return what must not come together by the labels, counted in plain Python."""
    place = {name: i for i, name in enumerate(columns)}
    person = labels.get("person", [])
    whose = [place[p] for p in ([person] if isinstance(person, str) else person)]
    people = [tuple(r[i] for i in whose) if whose else n for n, r in enumerate(rows)]
    total = len(set(people))
    direct, quasi, sensitive = (
        labels.get(role, []) for role in ("direct", "quasi", "sensitive")
    )
    known = dict.fromkeys([*quasi, *sensitive])
    varied = [q for q in known if len({row[place[q]] for row in rows} - {""}) > 1]

    def share(names: tuple[str, ...]) -> float:
        places = [place[name] for name in names]
        owners = defaultdict(set)
        for row, who in zip(rows, people, strict=True):
            values = tuple(row[i] for i in places)
            if all(values):
                owners[values].add(who)
        return len({next(iter(w)) for w in owners.values() if len(w) == 1}) / total

    minimal: list[frozenset[str]] = []
    for size in (1, 2, 3):
        for names in combinations(varied, size):
            inner = any(one <= set(names) for one in minimal)
            if not inner and share(names) >= LEAST:
                minimal.append(frozenset(names))
    found = {frozenset(one) for one in labels.get("identifying", [])}
    for one in minimal:
        if len(one) == 1:
            found |= {one | {b} for b in [*varied, *sensitive] if b not in one}
        elif len(one & set(quasi)) > 1:
            found.add(one)
        else:
            found |= {one | {b} for b in sensitive if b not in one}
    labelled = dict.fromkeys([*direct, *quasi, *sensitive])
    found |= {frozenset((a, b)) for a in direct for b in labelled if a != b}
    return {one for one in found if not any(two < one for two in found)}


def is_denied(policy: Policy, names: frozenset[str]) -> bool:
    """Whether no stranger can be shown all of these fields of one record."""
    fields = {name.strip(): name for name in policy.entity.fields}
    known = [fields.get(name) for name in names]
    if any(name is None or not policy.entity.fields[name].send for name in known):
        return True
    entries = [("r", name) for name in known]
    return any(
        not run_test(
            policy,
            PolicyTest(
                name="", worker="stranger", ask=ask, expect_allow=True,
                seen=tuple(e for e in entries if e != ask),
            ),
        ).allowed
        for ask in entries
    )  # fmt: skip


def drafted(policy: Policy) -> set[frozenset[str]]:
    """Return what the rules of a draft keep apart."""
    found = set()
    for rule in policy.properties.values():
        for fields in rule.alternatives:
            names = [name.strip() for name in fields]
            size = rule.disclosure.at or len(names)
            found |= {frozenset(one) for one in combinations(names, size)}
    return found


def measure(name: str, labels: dict, path: Path) -> Row:
    columns, rows = read(path)
    truth = wanted(labels, columns, rows)
    begun = time.process_time()
    try:
        text = suggest(path, Options()).text
    except Invalid:  # no key: rows are numbered, as its message says
        text = suggest(path, Options(numbered=True)).text
    seconds = time.process_time() - begun
    result = parse(text.encode())
    assert result.policy is not None, result.diagnostics
    assert all(run_test(result.policy, t).passed for t in result.policy.tests)
    sets = drafted(result.policy)
    missed = tuple(one for one in truth if not is_denied(result.policy, one))
    extra = tuple(s for s in sets if not any(one <= s for one in truth))
    return Row(
        name, labels.get("held_out", False), len(rows), len(columns), len(truth), len(truth) - len(missed),
        len(sets), len(extra), seconds, missed, extra,
    )  # fmt: skip


def files(data: Path, scratch: Path) -> Iterator[tuple[str, dict, Path]]:
    for name, labels in tomllib.loads(LABELS.read_text()).items():
        path = data / labels["file"]
        if path.is_dir():  # one JSON object a receipt
            made = scratch / f"{name}.csv"
            with made.open("w", newline="") as stream:
                writer = csv.writer(stream)
                writer.writerow(["scan", "company", "date", "address", "total"])
                for one in sorted(path.glob("*.json")):
                    receipt = json.loads(one.read_text(errors="replace"))
                    values = [
                        receipt.get(k, "")
                        for k in ("company", "date", "address", "total")
                    ]
                    writer.writerow([f"{one.stem}.jpg", *values])
            path = made
        if path.exists():
            yield name, labels, path
    for name, drawn in HELD_OUT.items():
        made = write(drawn, scratch / f"{name.split()[0]}.csv")
        yield name, {**drawn.labels, "held_out": True}, made


def write(drawn: HeldOut, path: Path) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter=";")
        writer.writerow(drawn.columns)
        writer.writerows(zip(*drawn.columns.values(), strict=True))
    return path


def table(rows: list[Row], *, held_out: bool) -> str:
    rows = [row for row in rows if row.held_out == held_out]
    lines = [
        "| data set | rows | columns | must be kept apart | denied | kept apart by the draft | beyond the labels |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r.name} | {r.rows:,} | {r.columns} | {r.labelled} "
        f"| {share(r.denied, r.labelled)} | {r.suggested} | {share(r.beyond, r.suggested)} |"
        for r in rows
    ]
    labelled, denied = sum(r.labelled for r in rows), sum(r.denied for r in rows)
    suggested, beyond = sum(r.suggested for r in rows), sum(r.beyond for r in rows)
    lines.append(
        f"| **all {len(rows)}** | | | {labelled} | {share(denied, labelled)} | {suggested} | {share(beyond, suggested)} |"
    )
    return "\n".join(lines)


def share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)" if whole else "-"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("data", type=Path)
    options.add_argument("--only", default="")
    options.add_argument("--write", action="store_true")
    options.add_argument(
        "-v", action="store_true", help="list what is missed and beyond"
    )
    chosen = options.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, labels, path in files(chosen.data, Path(scratch)):
            if chosen.only in name:
                row = measure(name, labels, path)
                rows.append(row)
                if chosen.v:
                    print(name, f"{row.seconds:.1f} s")
                    print("  missed", sorted(map(sorted, row.missed)))
                    print("  beyond", sorted(map(sorted, row.extra)))
    tables = [table(rows, held_out=held_out) for held_out in (True, False)]
    print("\n\n".join(tables))
    if chosen.write:
        before = PAGE.read_text().split(MARK)[0]
        heads = ("### Held out", "### Tuned on")
        parts = [f"{head}\n\n{made}" for head, made in zip(heads, tables, strict=True)]
        PAGE.write_text("\n\n".join([f"{before}{MARK}", *parts]) + "\n")


if __name__ == "__main__":
    main()
