"""Opening of all formats: bytes or a folder in, a table out, every decision reported."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from dispatcher.core.errors import Invalid
from dispatcher.export_format import is_export, unguarded
from dispatcher.stages.intake.delimited import DelimitedReader, find_delimiter
from dispatcher.stages.intake.encoding import Encoding, Lines, decoded, find_encoding
from dispatcher.stages.intake.json_reader import (
    JsonElements,
    JsonReader,
    json_lines,
    refuse_rows_inside,
)
from dispatcher.stages.intake.parquet import ParquetReader
from dispatcher.stages.intake.source import Source, open_source, shown_name
from dispatcher.stages.intake.table import (
    ROW_KEY,
    FileFacts,
    FileFormat,
    OpenedFile,
    Options,
    RowBatch,
)
from dispatcher.stages.intake.workbook import WorkbookReader

GUARDED: Final = "written by records reassemble: the formula guard is taken away"
SUFFIXES: Final = {
    ".csv": FileFormat.CSV,
    ".txt": FileFormat.CSV,
    ".tsv": FileFormat.TSV,
    ".tab": FileFormat.TSV,
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
    ".json": FileFormat.JSON,
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".xlsx": FileFormat.EXCEL,
    ".xlsm": FileFormat.EXCEL,
    ".xls": FileFormat.EXCEL,
}
DIGEST: Final = 16  # hexadecimal digits
SCANS: Final = (".pdf", ".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp")
"""Endings of the files of a folder that are scans."""
FOLDER_COLUMNS: Final = ("file", "scan")
"""The key of a scan's row, and its page: both are the name of its file."""
_REFUSED: Final = (
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"7z\xbc\xaf", "a 7z archive"),
)


def open_table(
    where: Path | BinaryIO, options: Options | None = None, *, name: str | None = None
) -> OpenedFile:
    """Open a file, a folder of scans or a binary stream as a table of text cells.

    Parameters
    ----------
    where : Path or binary stream
    options : Options, optional
    name : str, optional
        Name of the file in messages; by default its own.

    Raises
    ------
    Invalid
        The file cannot be read, is no table, or its header names no columns.
    """
    options = options or Options()
    if isinstance(where, Path) and where.is_dir():
        return _folder(where, options)
    source = open_source(where, name=name, max_bytes=options.max_bytes)
    try:
        facts = FileFacts(source.name, _format(source, options), source.compressed)
        columns, batches = _reading(source, facts, options)
        if options.numbered:
            digest = _digest(where, source.name, options)
            columns, batches = (ROW_KEY, *columns), _numbered(batches, digest)
            facts.numbered = True
    except BaseException:
        source.close()
        raise
    return OpenedFile(
        facts, columns, batches, source.size, source.position, source.close
    )


def folder_of_pages(where: Path | BinaryIO) -> Path:
    """Return the folder that the pages of a table lie in, if nothing else is said."""
    if not isinstance(where, Path):
        return Path()
    return where if where.is_dir() else where.parent


def scans_of(folder: Path) -> list[Path]:
    """Return the scans in a folder, in order of name."""
    return sorted(
        one for one in folder.iterdir() if one.suffix.lower() in SCANS and one.is_file()
    )


def _folder(where: Path, options: Options) -> OpenedFile:
    """Open a folder as a table of its scans."""
    name = shown_name(where.resolve())
    if options.numbered:
        raise Invalid(
            "the scans of a folder are not numbered",
            why="each is known by the name of its file",
            fix="leave --key out",
        )
    try:
        names = [shown_name(one) for one in scans_of(where)]
    except OSError as error:
        raise Invalid(
            f"{name} cannot be read",
            why=error.strerror or type(error).__name__,
            fix="check its owner and mode",
        ) from None
    if not names:
        raise Invalid(
            f"{name} is a folder without scans",
            why=f"scans are files that end in {', '.join(SCANS)}",
            fix="name a folder of scans, or a file of records",
        )
    read = 0

    def batches() -> Iterator[RowBatch]:
        nonlocal read
        for first in range(0, len(names), options.batch_rows):
            some = names[first : first + options.batch_rows]
            read = first + len(some)
            lines = [*range(first + 1, read + 1)]
            yield RowBatch(FOLDER_COLUMNS, lines, [(one, one) for one in some])

    facts = FileFacts(name, FileFormat.FOLDER)
    return OpenedFile(
        facts, FOLDER_COLUMNS, batches(), len(names), lambda: read, lambda: None
    )


def _digest(where: Path | BinaryIO, name: str, options: Options) -> str:
    """Return the digest of the table's decompressed bytes."""
    if not isinstance(where, Path):
        raise Invalid(
            "rows of a stream cannot be numbered",
            why="their key holds the digest of the file, which is known only at its end",
            fix="save it to a file, and load that with --key row",
        )
    source = open_source(where, name=name, max_bytes=options.max_bytes)
    try:
        digest = hashlib.sha256()
        for block in source.blocks():
            digest.update(block)
        return digest.hexdigest()[:DIGEST]
    finally:
        source.close()


def _numbered(batches: Iterator[RowBatch], digest: str) -> Iterator[RowBatch]:
    """Yield the batches with the key of each row in a column before the others."""
    for batch in batches:
        if ROW_KEY in batch.columns:
            raise Invalid(
                f"the file has a column `{ROW_KEY}` of its own",
                why="--key row adds a column of that name",
                fix="rename the column, or make it the key and leave --key out",
            )
        batch.columns = (ROW_KEY, *batch.columns)
        batch.rows = [
            (f"{digest}:{line}", *row)
            for line, row in zip(batch.lines, batch.rows, strict=True)
        ]
        yield batch


def _format(source: Source, options: Options) -> FileFormat:
    """Return the format: the operator's choice, else by content, else by name."""
    by_content = _by_content(source)
    if options.format is not None:
        return options.format
    return by_content or _by_name(source)


def _by_content(source: Source) -> FileFormat | None:
    head = source.head
    if head.startswith(b"PAR1"):
        return FileFormat.PARQUET
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        raise _old_workbook(source.name)
    if head.startswith(b"PK\x03\x04"):
        if b"opendocument" in head[:200]:
            raise _unknown(source.name, "an OpenDocument file")
        if _is_workbook(source):
            return FileFormat.EXCEL
        raise _unknown(source.name, "a zip archive")
    beginning = head[:200].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if beginning.startswith((b"<!doctype", b"<html", b"<table", b"<?xml")):
        raise _unknown(source.name, "a page of HTML or XML")
    for magic, what in _REFUSED:
        if head.startswith(magic):
            raise _unknown(source.name, what)
    return None


def _is_workbook(source: Source) -> bool:
    """Whether the first parts of the zip are those of a workbook."""
    head = source.head
    if b"[Content_Types].xml" in head:
        return True
    if not source.whole:
        return b"xl/" in head
    try:
        names = zipfile.ZipFile(BytesIO(head)).namelist()
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError):
        return True  # the workbook reader reports what is broken
    return any(n.startswith("xl/") or n == "[Content_Types].xml" for n in names)


def _old_workbook(name: str) -> Invalid:
    return Invalid(
        f"{name} is an Excel workbook of the old kind (.xls), or has a password",
        why="its cells without a text, like #N/A, could not be found before it is read",
        fix="open it in a spreadsheet program and save it as .xlsx, without a password",
    )


def _unknown(name: str, what: str) -> Invalid:
    return Invalid(
        f"{name} is {what}, not a table",
        why="CSV, TSV, JSON, JSONL, Parquet and Excel can be loaded, each also gzip",
        fix="unpack or convert it first, for example to CSV",
    )


def _by_name(source: Source) -> FileFormat:
    suffixes = [suffix.lower() for suffix in Path(source.name).suffixes]
    if suffixes and suffixes[-1] in (".gz", ".gzip"):
        suffixes.pop()
    named = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if named in (FileFormat.PARQUET, FileFormat.EXCEL):
        raise Invalid(
            f"{source.name} is not what its name says",
            why=f"a file ending in {suffixes[-1]} begins with other bytes",
            fix="check the file, or give its format with --format",
        )
    if named is not None:
        return named
    beginning = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if beginning == b"[":
        return FileFormat.JSON
    return FileFormat.JSONL if beginning == b"{" else FileFormat.CSV


def _reading(
    source: Source, facts: FileFacts, options: Options
) -> tuple[tuple[str, ...], Iterator[RowBatch]]:
    match facts.format:
        case FileFormat.PARQUET:
            parquet = ParquetReader(source, options.batch_rows)
            return parquet.columns, parquet.batches()
        case FileFormat.EXCEL:
            book = WorkbookReader(source, options.batch_rows, options.sheet)
            facts.sheet = book.sheet
            facts.notes += book.notes
            return book.columns, book.batches()
        case FileFormat.JSON | FileFormat.JSONL:
            return _json(source, facts, options)
        case FileFormat.CSV | FileFormat.TSV:
            return _delimited(source, facts, options)
        case FileFormat.FOLDER:
            raise AssertionError("a folder has no bytes to read")


def _encoding(source: Source, facts: FileFacts, options: Options) -> Encoding:
    encoding = find_encoding(source.head, whole=source.whole, named=options.encoding)
    facts.encoding = encoding.shown
    facts.encoding_reason = encoding.reason
    return encoding


def _delimited(
    source: Source, facts: FileFacts, options: Options
) -> tuple[tuple[str, ...], Iterator[RowBatch]]:
    encoding = _encoding(source, facts, options)
    delimiter = options.delimiter
    if delimiter is None:
        sample = "".join(decoded(iter([source.head]), encoding))
        prefer = "\t" if facts.format is FileFormat.TSV else None
        surely = options.format is not None or not source.name.endswith(".txt")
        delimiter = find_delimiter(
            sample, whole=source.whole, prefer=prefer, surely=surely
        )
    elif len(delimiter) != 1 or delimiter in '"\r\n\0 ':
        raise Invalid(
            "that is no delimiter",
            why="--delimiter takes one character that is no quote, space or line end",
            fix="for example --delimiter ';' or --delimiter $'\\t'",
        )
    facts.delimiter = delimiter
    if facts.format is FileFormat.CSV and delimiter == "\t":
        facts.format = FileFormat.TSV
    lines = Lines(source.blocks(), encoding)
    reader = DelimitedReader(lines, delimiter, options.batch_rows)
    ours = options.guarded
    if ours is None and is_export(reader.columns):
        ours = True
        facts.notes.append(GUARDED)
    if not ours:
        return reader.columns, reader.batches()
    return unguarded(reader.columns, reader.batches())


def _json(
    source: Source, facts: FileFacts, options: Options
) -> tuple[tuple[str, ...], Iterator[RowBatch]]:
    encoding = _encoding(source, facts, options)
    objects: Iterator[tuple[int, str]]
    elements = None
    if facts.format is FileFormat.JSON:
        elements = JsonElements(decoded(source.blocks(), encoding))
        objects = iter(elements)
    else:
        objects = json_lines(Lines(source.blocks(), encoding))
    first = next(objects, None)
    if first is None:
        raise Invalid(
            f"{source.name} holds no object",
            why="a table has at least one row",
            fix="check the file, or the command that wrote it",
        )
    if not first[1].lstrip().startswith("{"):
        raise Invalid(
            f"{source.name} is no list of objects",
            why="each row must be an object whose members are the columns",
            fix='write rows like {"column": "value"}, in a list or one a line',
        )
    second = next(objects, None)
    if second is None and not (elements and elements.in_list):
        refuse_rows_inside(first[1], source.name)
    head = (first,) if second is None else (first, second)
    batches = JsonReader(chain(head, objects), options.batch_rows).batches()
    begun = next(batches, None)
    columns = begun.columns if begun is not None else ()
    return columns, chain((begun,) if begun is not None else (), batches)
