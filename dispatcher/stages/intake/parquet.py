"""Parquet in batches of rows, with a limit on the decoded size."""

from __future__ import annotations

import io
import json
import os
import re
import zoneinfo
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

import numpy as np

from dispatcher.core.errors import Invalid
from dispatcher.stages.intake.source import Source
from dispatcher.stages.intake.table import (
    BATCH_CHARACTERS,
    RejectedRow,
    RowBatch,
    cell_fault,
    checked_header,
    plain_text,
)

NO_NUMBER: Final = "a number without digits (NaN or infinite)"
NO_MOMENT: Final = "a moment outside of the years 1 to 9999"
DAYS: Final = (-719_161, 2_932_895)  # from 1970: of these years, less a day for zones
DURATION_DAYS: Final = 999_999_998
PER_DAY: Final = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
# Else the library takes no zone without a name. It looks here once in a process.
os.environ.setdefault("POLARS_IGNORE_TIMEZONE_PARSE_ERROR", "1")
FIXED_ZONE: Final = re.compile(r"([+-])(\d\d):?(\d\d)")
"""A zone that has no name: how far it is from UTC, as `+05:30`."""
FIRST_LINE: Final = 2  # the header counts as row 1, as in a sheet


class ParquetReader:
    """Batches of rows.

    Raises
    ------
    Invalid
        The file is damaged, has a binary column, or its reader is not installed.
    """

    def __init__(self, source: Source, batch_rows: int) -> None:
        try:
            import polars as pl  # noqa: PLC0415 - an extra, and slow to import
        except ImportError:
            raise Invalid(
                f"{source.name} is Parquet, and the reader for it is not installed",
                why="it is an extra",
                fix="pip install 'sparsi-dispatcher[parquet]', or convert it to CSV",
            ) from None
        self._source = source
        self._batch_rows = batch_rows
        plain = source.path is not None and not source.compressed
        where = source.path if plain else io.BytesIO(source.everything())
        # Where the library gives up it raises this, which is no Exception.
        self._errors: tuple[type[BaseException], ...] = (
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
            OverflowError,
            OSError,
        )
        try:
            self._frame: Any = pl.scan_parquet(where, glob=False)
            schema = self._frame.collect_schema()
            self._total = int(self._frame.select(pl.len()).collect().item())
        except self._errors as error:
            raise _damaged(source.name, error) from None
        self.columns = checked_header(schema.names(), "the schema")
        for number, kind in enumerate(schema.dtypes(), 1):
            inner = set(_leaves(kind))
            if inner & {pl.Binary, pl.Object}:
                raise Invalid(
                    f"column {number} of {source.name} is binary",
                    why="a cell must be text, a number or a moment",
                    fix="drop the column, or store a path to a file instead",
                )
            if not all(map(_has_known_zone, inner)):
                raise Invalid(
                    f"column {number} of {source.name} is in an unknown time zone",
                    why="its moments cannot be written without it",
                    fix="write the column in UTC, or in a zone of the IANA database",
                )
        self._texts = [n for n, kind in schema.items() if kind == pl.String]
        self._pl = pl

    def batches(self) -> Iterator[RowBatch]:
        """Yield all rows, once.

        Raises
        ------
        Invalid
            The rows decode to more than the source's ``max_bytes``, or are damaged.
        """
        line, decoded = FIRST_LINE, 0
        frames = iter(
            self._frame.collect_batches(
                chunk_size=self._batch_rows, maintain_order=True, lazy=True
            )
        )
        while True:
            try:
                frame = next(frames, None)
            except self._errors as error:
                raise _damaged(self._source.name, error) from None
            if frame is None:
                return
            for start, rows, size in self._slices(frame):
                decoded += size
                if decoded > self._source.max_bytes:
                    raise _bomb(self._source.name, self._source.max_bytes)
                try:
                    batch = self._batch(frame.slice(start, rows), line + start)
                except self._errors as error:
                    raise _damaged(self._source.name, error) from None
                yield batch
            line += frame.height
            self._progress(line - FIRST_LINE)

    def _progress(self, rows: int) -> None:
        if self._source.size is not None and self._total:
            self._source.at(self._source.size * rows // self._total)

    def _slices(
        self,
        frame: Any,  # noqa: ANN401 - a frame of an optional library
    ) -> Iterator[tuple[int, int, int]]:
        """Yield (first row, rows, bytes) so that no slice is large as text."""
        pl = self._pl
        width = 8 * len(self.columns)
        if self._texts:
            sizes = frame.select(
                pl.sum_horizontal(
                    pl.col(name).str.len_bytes().fill_null(0) for name in self._texts
                )
            ).to_series()
        else:
            sizes = pl.repeat(0, frame.height, eager=True)
        start = total = 0
        for row, size in enumerate(sizes.to_list()):
            total += size + width
            if total >= BATCH_CHARACTERS or row - start + 1 >= self._batch_rows:
                yield start, row - start + 1, total
                start, total = row + 1, 0
        if start < frame.height:
            yield start, frame.height - start, total

    def _batch(
        self,
        frame: Any,  # noqa: ANN401
        line: int,
    ) -> RowBatch:
        columns: list[Sequence[str]] = []
        faults: dict[int, tuple[int, str]] = {}
        for at, series in enumerate(frame.iter_columns()):
            if series.dtype.is_float():
                wrong = (~series.is_finite()).arg_true()
                faults |= dict.fromkeys(wrong, (at, NO_NUMBER))
            elif (far := self._far(series)) is not None:
                faults |= dict.fromkeys(far.arg_true(), (at, NO_MOMENT))
                series = self._pl.select(  # noqa: PLW2901
                    self._pl.when(~far).then(series)
                ).to_series()
            if series.dtype == self._pl.String:
                columns.append(series.fill_null("").to_list())
            else:
                texts = [_text(value) for value in self._values(series)]
                columns.append(["" if text is None else text for text in texts])
                wrong = [row for row, text in enumerate(texts) if text is None]
                faults |= dict.fromkeys(wrong, (at, NO_NUMBER))
        batch = RowBatch(self.columns)
        for number, row in enumerate(zip(*columns, strict=True)):
            fault = faults.get(number) or cell_fault(row)
            if fault is None:
                batch.rows.append(row)
                batch.lines.append(line + number)
            else:
                column = self.columns[fault[0]]
                batch.rejected.append(RejectedRow(line + number, column, fault[1]))
        return batch

    def _far(
        self,
        series: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401 - a mask of an optional library; None: all are near
        """Find moments that Python has none for: to read one ends in a panic."""
        pl, kind = self._pl, series.dtype
        first, last = DAYS
        if kind == pl.Duration:
            first, last = -DURATION_DAYS, DURATION_DAYS
        elif kind not in (pl.Date, pl.Datetime):
            return None
        unit = 1 if kind == pl.Date else PER_DAY[kind.time_unit]
        if last * unit >= 1 << 63:  # no number of it is that large
            return None
        number = series.to_physical().cast(pl.Int64)
        far = ((number < first * unit) | (number >= last * unit)).fill_null(value=False)
        return far if far.any() else None

    def _values(
        self,
        series: Any,  # noqa: ANN401
    ) -> list[Any]:
        """Return values with all their digits: Python's datetimes end at microseconds.

        A number of 16 or 32 bits is the one with the same shortest text: 0.1, and not
        0.10000000149011612. Whole numbers of 16 bits are exact, and stay: 65504.
        """
        pl, kind = self._pl, series.dtype
        if isinstance(kind, pl.List | pl.Array):
            return [None if v is None else self._values(v) for v in series]
        if isinstance(kind, pl.Struct):
            names = [field.name for field in kind.fields]
            members = [self._values(series.struct.field(name)) for name in names]
            rows = zip(*members, strict=True) if names else ((),) * len(series)
            return [
                None if is_null else dict(zip(names, row, strict=True))
                for is_null, row in zip(series.is_null(), rows, strict=True)
            ]
        if kind in (pl.Float16, pl.Float32):
            short = np.float16 if kind == pl.Float16 else np.float32
            return [
                v
                if v is None or (short is np.float16 and v.is_integer())
                else float(str(short(v)))
                for v in series
            ]
        fixed = FIXED_ZONE.fullmatch(getattr(kind, "time_zone", None) or "")
        if fixed is not None:
            sign, hours, minutes = fixed.groups()
            away = timedelta(hours=int(hours), minutes=int(minutes))
            in_utc = series.cast(pl.Datetime(kind.time_unit))
            local = self._values(in_utc - away if sign == "-" else in_utc + away)
            zone = f"{sign}{hours}:{minutes}"
            return [v and f"{plain_text(v)}{zone}" for v in local]
        if kind == pl.Duration("ns"):
            return [_duration(v) for v in series.dt.total_nanoseconds()]
        if kind == pl.Time or getattr(kind, "time_unit", "") == "ns":
            zone = "%:z" if getattr(kind, "time_zone", None) else ""
            day = "" if kind == pl.Time else "%Y-%m-%dT"
            series = series.dt.to_string(f"{day}%H:%M:%S%.f{zone}")
        return list(series.to_list())


def _leaves(
    kind: Any,  # noqa: ANN401 - a type of an optional library
) -> Iterator[Any]:
    """Yield the types of the values in a column, however deep they lie."""
    if fields := getattr(kind, "fields", None):
        for field in fields:
            yield from _leaves(field.dtype)
    elif (inner := getattr(kind, "inner", None)) is not None:
        yield from _leaves(inner)
    else:
        yield kind


def _has_known_zone(
    kind: Any,  # noqa: ANN401
) -> bool:
    """Whether a moment of this type can be written: any other type can."""
    zone = getattr(kind, "time_zone", None)
    if zone is None or FIXED_ZONE.fullmatch(zone):
        return True
    try:
        zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _duration(nanoseconds: int | None) -> str | None:
    """Hours, minutes, seconds, as :func:`plain_text` writes them."""
    if nanoseconds is None:
        return None
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    sign = "-" if nanoseconds < 0 else ""
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{sign}{plain_text(timedelta(seconds=seconds))}{fraction}"


def _text(value: object) -> str | None:
    """Render one value: JSON for lists and structs; None if a number has no digits."""
    if not isinstance(value, list | dict):
        return plain_text(value)
    try:
        return json.dumps(
            value,
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
            default=plain_text,
        )
    except ValueError:
        return None


def _damaged(name: str, error: BaseException) -> Invalid:
    return Invalid(
        f"{name} cannot be read as Parquet",
        why=f"it is damaged or of a kind not known ({type(error).__name__})",
        fix="write it again, or convert it to CSV",
    )


def _bomb(name: str, limit: int) -> Invalid:
    return Invalid(
        f"{name} decodes to more than {limit:,} bytes",
        why="a small file that decodes to a huge one can fill memory and disk",
        fix="if it is meant to be that large, say so with --max-bytes",
    )
