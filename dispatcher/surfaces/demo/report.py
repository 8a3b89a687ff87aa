"""What the demo found: counted from files, and from what the workers really saw."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from dispatcher import verifier
from dispatcher.surfaces.demo.forms import FIELDS, WrittenBox
from dispatcher.surfaces.demo.people import Diary

SUBJECT_PAIRS = (("patient_name", "disease"), ("patient_name", "drug"))
RECORD_SETS = (("doctor", "drug"), ("gender", "zip", "birth_date"))


class Program(Protocol):
    """How the report runs a command of ours."""

    directory: Path

    def command(self, *words: str, echo: bool = True) -> str:
        """Run one command; return its output."""


@dataclass(frozen=True)
class Report:
    """What came of the demo.

    Attributes
    ----------
    records, wanted : int
        Records put together again, and loaded.
    matching, fields : int
        Fields whose consensus is what is written on the form, and all fields.
    conflicts : int
        Fields on which the workers did not agree within the showings that they may have.
    answers : int
        Answers that the simulated workers gave.
    worst : Fraction
        Largest f / limit of any set and adversary, from the evidence.
    complete : int
        Sensitive sets that a worker could put together from the pixels it really saw.
    strangers : int
        Pictures shown that were no crop of a form, and trespasses that showed anything.
    trespasses : int
        Tries to open another's task or an edited id.
    verdict : str
        First line of the verifier, run as a process of its own.
    directory : Path
    """

    records: int
    wanted: int
    matching: int
    fields: int
    conflicts: int
    answers: int
    worst: Fraction
    complete: int
    strangers: int
    trespasses: int
    verdict: str
    directory: Path

    @property
    def good(self) -> bool:
        """Whether the promise was kept and the work was done."""
        return (
            self.verdict.startswith("VERIFIED")
            and not self.complete
            and not self.strangers
            and self.records == self.wanted
        )

    def document(self) -> dict[str, object]:
        """Return the numbers, ready for JSON."""
        return {
            **asdict(self),
            "worst": str(self.worst),
            "directory": str(self.directory),
        }

    def text(self, seconds: float) -> str:
        """Lay it out for people."""
        share = self.matching / max(1, self.fields)
        where = self.directory
        beside = Path(sys.executable).with_name("dispatcher")
        program = "dispatcher" if shutil.which("dispatcher") else beside
        return f"""\
what happened, in {seconds:.0f} s
  records reassembled   {self.records} of {self.wanted}   -> {where / "whole.csv"}
  fields as written     {self.matching} of {self.fields} ({share:.1%}), {self.conflicts} in conflict
  answers used          {self.answers:,}
  worst share           {float(self.worst):.2f} of a limit
  complete sets         {self.complete}   (from the pixels that each worker really saw)
  trespasses            {self.trespasses} tried, {self.strangers} showed anything
  verifier              {self.verdict}

next
  {program} --dir {where} status
  {program} --dir {where} explain rx-0001.disease --who
  {program} audit verify {where / "evidence"}
  {Path(sys.executable).name} {Path(verifier.__file__)} {where / "evidence"}"""


def report(
    program: Program,
    wanted: int,
    known: Mapping[str, WrittenBox],
    diaries: Sequence[Diary],
) -> Report:
    """Reassemble, export and verify; compare with the truth and with the diaries."""
    directory = program.directory
    whole, evidence = directory / "whole.csv", directory / "evidence"
    program.command("records", "reassemble", "-o", str(whole))
    shutil.rmtree(evidence, ignore_errors=True)
    program.command("audit", "export", str(evidence))
    checked = subprocess.run(  # noqa: S603 - our own verifier
        [sys.executable, verifier.__file__, str(evidence)],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = _rows(whole)
    truth = {row["rx_id"]: row for row in _rows(directory / "truth.csv")}
    states = [[row[f"{field}_state"] for field in FIELDS] for row in rows]
    settled = sum(set(mine) <= {"answered", "conflict"} for mine in states)
    matching = sum(row[f] == truth[row["rx_id"]][f] for row in rows for f in FIELDS)
    cert = json.loads((evidence / "cert.json").read_text(encoding="utf-8"))
    shares = [Fraction(one["share"]) for one in cert["worst"].values()]
    return Report(
        records=settled,
        wanted=wanted,
        matching=matching,
        fields=len(known),
        conflicts=sum(mine.count("conflict") for mine in states),
        answers=sum(diary.answered for diary in diaries),
        worst=max(shares, default=Fraction(0)),
        complete=sum(complete_sets(diary.seen) for diary in diaries),
        strangers=sum(d.unreadable + d.leaked for d in diaries),
        trespasses=sum(d.trespasses for d in diaries),
        verdict=(checked.stdout.splitlines() or [f"exit {checked.returncode}"])[0],
        directory=directory,
    )


def complete_sets(seen: set[WrittenBox]) -> int:
    """Count the sets of the prescriptions policy that were seen whole, by brute force."""
    by_patient: dict[str, set[str]] = defaultdict(set)
    by_record: dict[str, set[str]] = defaultdict(set)
    for written in seen:
        by_patient[written.patient_id].add(written.field)
        by_record[written.rx_id].add(written.field)
    pairs = sum(set(p) <= had for had in by_patient.values() for p in SUBJECT_PAIRS)
    sets = sum(set(s) <= had for had in by_record.values() for s in RECORD_SETS)
    history: dict[str, int] = defaultdict(int)
    for written in seen:
        history[written.patient_id] += written.field in ("disease", "drug")
    return pairs + sets + sum(count >= 4 for count in history.values())


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))
