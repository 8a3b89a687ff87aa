"""``dispatcher records``: look into a file, load it, write records whole again."""

from __future__ import annotations

import re
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Self

import typer

from dispatcher.core.errors import EXIT_PARTLY, NoStore, Usage
from dispatcher.core.plurals import count
from dispatcher.surfaces.cli import completion
from dispatcher.surfaces.cli.context import (
    DRY_RUN,
    CliContext,
    DryRun,
    Limit,
    OnlyRun,
    leave,
)
from dispatcher.surfaces.cli.progress import rate_words
from dispatcher.surfaces.cli.subject import Confirm, show_erasure
from policies.document.diagnostic import listed

if TYPE_CHECKING:
    from dispatcher.stages.intake.loading import LoadProgress
    from dispatcher.stages.intake.preview import ColumnFacts, FilePreview
    from dispatcher.stages.intake.table import FileFacts, Options
    from policies.discovery.profile import Profile

app = typer.Typer(
    help="Look into files, load them, write records whole again.", no_args_is_help=True
)

SHOWN_REJECTS: Final = 5
SHOWN_FINDINGS: Final = 12
SHOWN_KEYS: Final = 4
UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
SEPARATORS: Final = {"\t": "tab"}
FORMAT_WORDS: Final = {"excel": "Excel", "folder": "folder of scans"}
"""Formats whose word is not their name in capitals."""


class FormatChoice(StrEnum):
    """The formats that can be loaded."""

    CSV = "csv"
    TSV = "tsv"
    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"
    EXCEL = "excel"


class Key(StrEnum):
    """Keys of records that are no column of the file."""

    ROW = "row"


File = Annotated[
    Path,
    typer.Argument(
        help="CSV, TSV, JSON(L), Parquet or Excel, also gzip; a folder of scans; - is "
        "stdin."
    ),
]
FormatOption = Annotated[
    FormatChoice | None, typer.Option("--format", help="Do not guess the format.")
]
EncodingOption = Annotated[
    str | None, typer.Option(help="Do not guess the encoding, e.g. shift_jis.")
]
DelimiterOption = Annotated[
    str | None, typer.Option(help="Do not guess the delimiter of CSV.")
]
SheetOption = Annotated[
    str | None,
    typer.Option(help="The sheet of a workbook (default: the first visible one)."),
]
KeyOption = Annotated[
    Key | None,
    typer.Option(
        "--key",
        help="row: no column is the key; rows are known by their line and the file's "
        "digest, so an edited file is another one.",
    ),
]
MaxBytesOption = Annotated[
    str, typer.Option("--max-bytes", help="Most that gzip and Parquet may unpack to.")
]
GuardOption = Annotated[
    bool | None,
    typer.Option(
        "--excel-guard/--no-excel-guard",
        help="CSV: a ' before = + - @ is a guard and no part of the cell (default: "
        "only in what reassemble wrote).",
        show_default=False,
    ),
]


@app.command()
def preview(
    ctx: typer.Context,
    file: File,
    format: FormatOption = None,
    encoding: EncodingOption = None,
    delimiter: DelimiterOption = None,
    sheet: SheetOption = None,
    key: KeyOption = None,
    max_bytes: MaxBytesOption = "2G",
    excel_guard: GuardOption = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show values too.")
    ] = False,
    crops: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Write the crops of the first rows into one HTML file, by policy.toml.",
        ),
    ] = None,
) -> None:
    """Describe a file, column by column; values stay hidden, nothing is loaded.

    With --crops a page is written that shows what workers would be shown of scans: it
    holds values, only you can read it, and it fetches nothing.
    """
    from dispatcher.operations import records

    context: CliContext = ctx.obj
    options = read_options(
        format, encoding, delimiter, sheet, key, max_bytes, excel_guard
    )
    if crops is not None:
        _write_crops(context, file, options, crops)
    try:
        store = context.open_store()
    except NoStore:  # the first look comes before there is one
        found = records.preview(_where(file), options)
    else:
        with store:
            found = records.preview(_where(file), options, context, store)
    context.show(
        _preview_document(found, show_values),
        _preview_text(context, found, show_values),
    )
    for column in found.columns:
        if column.suggestion == "subject" and "PERSON" in column.looks_like:
            context.say(
                f"WARN column {_printable(column.name)} contains people's names: two "
                "people of one name would be one subject, and one person written two "
                "ways two; take a column of ids as the subject where there is one"
            )
    no_key = key is None and found.profile.key is None
    if no_key:
        context.say(
            "no column is filled and different in every row: rows are numbered as they "
            "stand in the file (--key row)"
        )
    if crops is not None:  # there is a policy
        context.say(
            f"next: dispatcher policy check {context.policy_path} --against {file}"
        )
    else:
        context.say(
            f"next: dispatcher policy suggest {file}{' --key row' if no_key else ''}    "
            "drafts a first policy.toml from these findings"
        )


def _write_crops(
    context: CliContext, file: Path, options: Options, output: Path
) -> None:
    """Write the page of crops, by the policy file."""
    from dispatcher.core.private_files import write_private
    from dispatcher.operations.layouts import crop_rows
    from dispatcher.surfaces.cli.policy import valid_policy
    from dispatcher.surfaces.drawing import crops_page

    if str(file) == "-":
        raise Usage(
            "crops need a file",
            why="pages are looked for beside it",
            fix="name the file instead of -",
        )
    context.spare(output, file)
    policy = valid_policy(context.policy_path).policy
    fields, rows = crop_rows(file, options, policy)
    write_private(output, crops_page(file.name, fields, rows))
    aside = sum(bool(row.aside) for row in rows)
    context.say(
        f"the crops of {len(rows) - aside:,} rows, {aside:,} set aside -> {output}  (it "
        "holds values: delete it when you have looked at it)"
    )


@app.command()
def load(
    ctx: typer.Context,
    file: File,
    run: Annotated[
        str, typer.Option(help="The run.", autocompletion=completion.runs)
    ] = "default",
    format: FormatOption = None,
    encoding: EncodingOption = None,
    delimiter: DelimiterOption = None,
    sheet: SheetOption = None,
    key: KeyOption = None,
    max_bytes: MaxBytesOption = "2G",
    excel_guard: GuardOption = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--images", help="Folder of the pages of images (default: the file's)."
        ),
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(help="Where rejected rows go (default: FILE.rejected.csv)."),
    ] = None,
    pilot: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Only N records go out until the pilot is accepted.",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Load a file under the policy in force; loading it twice changes nothing.

    Rows that cannot be loaded are listed by line, column and reason in a file, and
    the exit status is 3.
    """
    from dispatcher.operations import records

    context: CliContext = ctx.obj
    is_stream = str(file) == "-"
    listed = rejects or records.rejects_path(Path("stdin.csv") if is_stream else file)
    options = read_options(
        format, encoding, delimiter, sheet, key, max_bytes, excel_guard
    )
    if dry_run:
        _preview_load(context, file, options)
        return
    context.spare(listed, file)
    with context.open_to_book() as store, LoadBar(context) as progress:
        loaded = records.load(
            context,
            store,
            _where(file),
            run=run,
            pilot=pilot,
            options=options,
            folder=folder,
            rejects=listed,
            progress=progress.show,
        )
    counts = loaded.counts
    document = {
        "schema": "dispatcher.load/1",
        "file": _facts_document(loaded.facts),
        "run": run,
        "records": counts.records,
        "entries": counts.entries,
        "sent": counts.sent,
        "skipped": counts.skipped,
        "rejected": counts.rejected,
        "rejects": str(loaded.rejects) if loaded.rejects else None,
    }
    context.say(_facts_line(loaded.facts))
    words = [f"{count(counts.records, 'record')} loaded into run {run}"]
    words.append(count(counts.entries, "field"))
    if counts.sent < counts.entries:
        words.append(
            f"{counts.sent:,} of them to be sent (send = false keeps the others)"
        )
    if counts.skipped:
        words.append(f"{counts.skipped:,} skipped: in the store already")
    if counts.rejected:
        words.append(
            f"{counts.rejected:,} rejected -> {loaded.rejects} (line, column, reason)"
        )
    context.show(document, "  ".join(words))
    if counts.rejected:
        leave(EXIT_PARTLY)


def _preview_load(context: CliContext, file: Path, options: Options) -> None:
    """Say which rows of a file would be rejected; load nothing."""
    from dispatcher.operations import records

    with context.open_store() as store:
        found = records.preview(_where(file), options, context, store, loading_it=True)
    context.say(DRY_RUN)
    rows = count(found.rows, "row")
    text = f"{found.rows - found.rejections:,} of {rows} would be loaded"
    if found.rejections:
        text += f"\n{_rejects_line(found)}"
    context.show(_preview_document(found, show_values=False), text)
    if found.rejections:
        leave(EXIT_PARTLY)


@app.command()
def reassemble(
    ctx: typer.Context,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to write it (0600)."),
    ],
    run: Annotated[
        str, typer.Option(help="The run.", autocompletion=completion.runs)
    ] = "default",
    format: Annotated[
        str, typer.Option(help="csv, jsonl or parquet (default: by the name).")
    ] = "",
    excel_guard: Annotated[
        bool,
        typer.Option(
            "--excel-guard/--no-excel-guard",
            help="CSV: put ' before cells that a spreadsheet would run.",
        ),
    ] = True,
) -> None:
    """Write records whole: the loaded columns, then answers, confidence and state.

    Each asked field has these columns: FIELD (FIELD_answer, where a loaded column has
    its name), FIELD_confidence, FIELD_state, FIELD_decided_by (consensus or operator).

    The format goes by the name of the file, .csv, .jsonl or .parquet; - is stdout. CSV is
    in UTF-8 with commas, whatever the loaded file was; a spreadsheet that expects
    something else takes it by its import, or --format parquet.
    """
    from dispatcher.operations import records

    context: CliContext = ctx.obj
    to_stream = str(output) == "-"
    with context.open_store() as store:
        if to_stream:
            stream = sys.stdout.buffer
            done = records.reassemble_to_stream(
                store, run, stream, format, excel_guard=excel_guard
            )
            stream.flush()
        else:
            context.spare(output)
            done = records.reassemble(
                context, store, run, output, format, excel_guard=excel_guard
            )
    states = ", ".join(f"{n:,} {state}" for state, n in done.states.items() if n)
    text = (
        f"{count(done.records, 'record')}, {done.whole:,} whole  "
        f"({states or 'no fields'})"
    )
    if to_stream:
        context.say(text)
        return
    context.show(
        {
            "schema": "dispatcher.reassembled/1",
            "run": run,
            "output": str(output),
            "records": done.records,
            "whole": done.whole,
            "fields": done.states,
        },
        f"{text}  -> {output}",
    )


def _where(file: Path) -> Path | BinaryIO:
    return sys.stdin.buffer if str(file) == "-" else file


def read_options(
    format: FormatChoice | None,
    encoding: str | None,
    delimiter: str | None,
    sheet: str | None,
    key: Key | None,
    max_bytes: str = "2G",
    guarded: bool | None = None,
) -> Options:
    """Return what the command line says of a file."""
    from dispatcher.operations import records

    known = {"\\t": "\t", "tab": "\t"}
    return records.Options(
        format=None if format is None else records.FileFormat(format.value),
        encoding=encoding,
        delimiter=known.get(delimiter, delimiter) if delimiter else delimiter,
        sheet=sheet,
        numbered=key is Key.ROW,
        max_bytes=_bytes(max_bytes),
        guarded=guarded,
    )


def _bytes(text: str) -> int:
    """Read a size: ``500M``, ``4GiB``, ``1000000``."""
    lower = text.strip().lower().removesuffix("b").removesuffix("i")
    number, unit = (lower[:-1], lower[-1:]) if lower[-1:].isalpha() else (lower, "")
    if unit in UNITS and number.isascii() and number.isdigit() and int(number):
        return int(number) * UNITS[unit]
    raise Usage(
        "--max-bytes is no size",
        why="it takes a whole number with or without k, M, G or T",
        fix="for example --max-bytes 4G",
    )


def _facts_line(facts: FileFacts) -> str:
    """How the file was understood, in one line."""
    name = FORMAT_WORDS.get(facts.format.value, facts.format.value.upper())
    parts = [f"{name}{', gzip' if facts.compressed else ''}"]
    if facts.encoding:
        parts.append(f"{facts.encoding} ({facts.encoding_reason})")
    if facts.delimiter:
        mark = SEPARATORS.get(facts.delimiter, f"'{facts.delimiter}'")
        parts.append(f"{mark} separated")
    if facts.sheet:
        parts.append(f"sheet {facts.sheet}")
    return f"{facts.name}  {', '.join([*parts, *facts.notes])}"


def _preview_text(context: CliContext, found: FilePreview, show_values: bool) -> str:
    hint = "" if show_values else "  (values hidden; --show-values to see 5)"
    head = (
        f"{_facts_line(found.file)}, {count(found.rows, 'row')}, "
        f"{count(len(found.columns), 'column')}{hint}"
    )
    header = ["column", "type", "empty", "distinct", "singles out", "looks like"]
    header.append("suggestion")
    rows = [
        _column_cells(column, found.profile, show_values) for column in found.columns
    ]
    lines = [head, context.table(rows, [*header, *(["values"] if show_values else [])])]
    if not found.rows:
        lines.append("the file has a header and no row: there is nothing to load")
    else:
        lines += profile_lines(found.profile)
    if found.rejections:
        lines.append(_rejects_line(found))
    return "\n".join(lines)


def _column_cells(
    column: ColumnFacts, measured: Profile, show_values: bool
) -> list[str]:
    from policies.discovery.dependencies import percent

    about = "" if column.exact else "~"
    single = measured.singles.get(column.name)
    cells = [
        _printable(column.name),
        column.kind,
        f"{column.empty:,}",
        f"{about}{column.distinct:,}",
        "-" if single is None else percent(single.share),
        column.looks_like,
        column.suggestion,
    ]
    if show_values:
        cells.append(" | ".join(_printable(value)[:40] for value in column.examples))
    return cells


def profile_lines(measured: Profile) -> list[str]:
    """Say what the columns of a file tell about people, a finding a line."""
    from policies.discovery.dependencies import percent

    by = " + ".join(measured.identity)
    whose = f"by {by}" if by else "each row is one"
    table = measured.table
    rows = count(table.rows, "row")
    if table.is_sample:
        rows = f"{table.rows:,} of {table.total:,} rows, drawn evenly"
    lines = [
        f"measured on {rows}, {count(measured.people, 'person', 'people')} ({whose})"
    ]
    lines += _repeats(measured)
    for found in measured.identifying[:SHOWN_FINDINGS]:
        beyond = ""
        if measured.table.is_sample:
            beyond = f"; of the whole file at most about {percent(found.beyond)}"
        verb = "singles" if len(found.columns) == 1 else "single"
        lines.append(f"{found} {verb} out {percent(found.share)} of the people{beyond}")
    if (more := len(measured.identifying) - SHOWN_FINDINGS) > 0:
        lines.append(f"and {more:,} more combinations; --json has them all")
    if measured.unsearched:
        lines.append(
            "triples were searched among the columns with the most different values; "
            f"{measured.unsearched:,} were left out"
        )
    lines += [
        f"the smallest combinations that tell all rows apart: "
        f"{listed(measured.keys, SHOWN_KEYS)}"
    ] * bool(measured.keys)
    lines += [str(found) for found in measured.dependencies[:SHOWN_FINDINGS]]
    lines += [
        f"{percent(found.share)} of the texts of {found.column} have {found.what}"
        for found in measured.names
    ]
    return [_printable(line) for line in lines]


def _repeats(measured: Profile) -> list[str]:
    """Say which rows and people stand in a file more than once."""
    lines = []
    if rows := measured.repeats.rows:
        but = f" but {measured.key}" if measured.key else ""
        some = "row is" if rows == 1 else "rows are"
        lines.append(f"{rows:,} {some} equal to an earlier row in all columns{but}")
    if people := measured.repeats.people:
        some = "person is" if people == 1 else "people are"
        by = " + ".join(measured.identity)
        lines.append(f"{people:,} {some} in several rows, by {by}")
        if measured.person is None:
            lines.append(
                "no column numbers people: add one and make it the subject, or rules "
                "hold by row, and not over all rows of a person"
            )
    return lines


def profile_document(measured: Profile) -> dict[str, Any]:
    """Return what the columns of a file tell about people, for ``--json``."""
    return {
        "rows": measured.table.rows,
        "of_rows": measured.table.total,
        "person": measured.person,
        "people": measured.people,
        "repeated_rows": measured.repeats.rows,
        "people_in_several_rows": measured.repeats.people,
        "identifying": [
            {"columns": c.columns, "share": c.share, "share_beyond": c.beyond}
            for c in measured.identifying
        ],
        "keys": [c.columns for c in measured.keys],
        "dependencies": [
            {"columns": d.columns, "tells": d.told, "share": d.share}
            for d in measured.dependencies
        ],
        "names_in_text": [
            {"column": n.column, "what": n.what, "share": n.share}
            for n in measured.names
        ],
    }


def _printable(text: str) -> str:
    """Without what could move a terminal's cursor or break a table's line."""
    return "".join(
        sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text
    )


def _rejects_line(found: FilePreview) -> str:
    shown = [
        f"line {r.line} ({f'{_printable(r.column)}: ' if r.column else ''}{r.reason})"
        for r in found.rejected[:SHOWN_REJECTS]
    ]
    more = found.rejections - len(shown)
    rest = f", and {more:,} more" if more > 0 else ""
    rows = "1 row" if found.rejections == 1 else f"{found.rejections:,} rows"
    return f"{rows} would be rejected: {', '.join(shown)}{rest}"


def _facts_document(facts: FileFacts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "format": facts.format.value,
        "gzip": facts.compressed,
        "encoding": facts.encoding or None,
        "encoding_reason": facts.encoding_reason or None,
        "delimiter": facts.delimiter or None,
        "sheet": facts.sheet or None,
        "notes": facts.notes,
    }


def _preview_document(found: FilePreview, show_values: bool) -> dict[str, Any]:
    return {
        "schema": "dispatcher.preview/1",
        "file": _facts_document(found.file),
        "rows": found.rows,
        "columns": [
            {
                "name": column.name,
                "type": column.kind,
                "empty": column.empty,
                "distinct": column.distinct,
                "distinct_exact": column.exact,
                "looks_like": column.looks_like,
                "singles_out": getattr(
                    found.profile.singles.get(column.name), "share", None
                ),
                "suggestion": column.suggestion,
                **({"values": column.examples} if show_values else {}),
            }
            for column in found.columns
        ],
        "measured": profile_document(found.profile),
        "rejections": found.rejections,
        "rejected": [
            {"line": r.line, "column": r.column, "reason": r.reason}
            for r in found.rejected
        ],
    }


class AnswerState(StrEnum):
    """How far a field is: its answers; or a record: all its fields together."""

    OPEN = "open"
    CONFLICT = "conflict"
    ANSWERED = "answered"


@app.command("list")
def list_records(
    ctx: typer.Context,
    run: OnlyRun = None,
    state: Annotated[
        AnswerState | None, typer.Option(help="Only records in this state.")
    ] = None,
    limit: Limit = 100,
) -> None:
    """List records with the states of their fields: no value."""
    from dispatcher.operations import records

    context: CliContext = ctx.obj
    with context.open_store() as store:
        found = records.list_records(store, run, state.value if state else None, limit)
    header = (
        "record",
        "run",
        "state",
        "fields",
        "answered",
        "conflict",
        "pseudonym",
    )
    context.show(
        {
            "schema": "dispatcher.records/1",
            "records": [dict(zip(header, row, strict=True)) for row in found],
        },
        context.table(found, header),
    )
    if len(found) == limit:
        context.say(f"the first {limit:,}; see more with --limit")


@app.command("show")
def show_record(
    ctx: typer.Context,
    key: Annotated[
        str, typer.Argument(help="Its key, as it was loaded, or its pseudonym.")
    ],
) -> None:
    """Show the fields of a record: state, showings, tasks and answers; no value."""
    from dispatcher.operations import records

    context: CliContext = ctx.obj
    with context.open_store() as store:
        name, found = records.show(store, key)
    header = records.FIELDS
    context.show(
        {
            "schema": "dispatcher.record/1",
            "record": key,
            "pseudonym": name,
            "fields": [dict(zip(header, row, strict=True)) for row in found],
        },
        context.table(found, header),
    )
    context.say(f"pseudonym {name}, as in the console and in the ledger")


class LoadBar:
    """Shows the progress of a load on stderr.

    Parameters
    ----------
    context : CliContext
    """

    def __init__(self, context: CliContext) -> None:
        self._counted = context.counted()
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        self._counted.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._counted.__exit__(*error)

    def show(self, progress: LoadProgress) -> None:
        """Show the state of a load."""
        records = progress.records + progress.skipped
        rate = records / max(time.monotonic() - self._began, 0.001)
        speed = f", {rate_words(rate)}" if rate else ""
        rejected = f", {progress.rejected:,} rejected" if progress.rejected else ""
        what = f"{count(records, 'record')}{rejected}{speed}"
        self._counted.show(progress.position, progress.size, what)


_AGES: Final = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


@app.command()
def purge(
    ctx: typer.Context,
    older_than: Annotated[
        str, typer.Option(help="Age since loading: 90d, 12w, 48h.", metavar="AGE")
    ],
    dry_run: DryRun = False,
    confirm: Confirm = "",
) -> None:
    """Erase the values of records loaded so long ago; ledger and evidence stay.

    What the policy's `retain` says is done by the daemon; this is for more.
    """
    from dispatcher.operations import subjects

    context: CliContext = ctx.obj
    moment = context.clock() - _micros(older_than)
    word = f"purge-{older_than}"
    with context.open_store() as store:
        older = subjects.count_older(store, moment)
        if dry_run:
            context.show(
                {"schema": "dispatcher.purge/1", "dry_run": True, "records": older},
                f"{DRY_RUN}\nwould erase the values of {count(older, 'record')}",
            )
            return
        if confirm != word:
            raise Usage(
                f"erasing the values of {count(older, 'record')} cannot be undone",
                why="it was not confirmed",
                fix=f"repeat the command with --confirm={word}",
            )
        done = subjects.purge(context, store, moment)
    show_erasure(context, done, f"records older than {older_than}")


def _micros(age: str) -> int:
    found = re.fullmatch(r"([0-9]{1,6})([hdw])", age)
    if found is None:
        raise Usage(
            f"--older-than is {age[:40]!r}",
            why="an age is a whole number and h, d or w",
            fix="say for instance --older-than 90d",
        )
    return int(found[1]) * _AGES[found[2]] * 1_000_000
