"""Files of rows, batch by batch: CSV and Parquet. Errors name the file, and the row where they know it (from 1)."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from vms.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Bytes of CSV that are parsed at once, and so the longest row. Not lower, or long texts would not fit; not
#: higher, because a few blocks are in memory at a time.
BLOCK_BYTES = 4 << 20
_BATCH_ROWS = 20_000


class RowFile(Protocol):
    """A file that can be read again and again. `names` are its columns."""

    names: Sequence[str]

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        """The rows in order, of these columns, and with each batch how much of the file is read (0 to 1)."""


@dataclass(frozen=True)
class CsvForm:
    """How a CSV file is written. `null` is the text that stands for NULL where it is not in quotes."""

    delimiter: str = ","
    header: bool = True
    null: str = ""


class CsvFile:
    """Values come as bytes: what they mean is the table's business. A path that ends with .gz is unpacked.

    A row of NULLs is added behind the last one and taken away again. Where it does not come back, it has become
    part of a text whose quote is not closed, and so have who knows how many rows before it.
    """

    def __init__(self, path: Path, name: str, form: CsvForm, names: Sequence[str]) -> None:
        """`name`: that of the file in messages. `names`: those of the columns where the file has no header."""
        self._path, self._name, self._form = path, name, form
        self.names: Sequence[str] = self._header() if form.header else names

    def _header(self) -> list[str]:
        try:
            with io.TextIOWrapper(self._open(), encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
                for line in csv.reader(text, delimiter=self._form.delimiter):
                    if line:
                        return line
        except csv.Error as error:
            raise UserError(f"{self._name}: the first line cannot be read as the names of columns: {error}") from None
        except OSError as error:
            raise self._unreadable(error) from None
        raise UserError(f"{self._name} is empty; its first line must name the columns")

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        size, bad, rows = max(self._path.stat().st_size, 1), list[pa.csv.InvalidRow](), 0
        wanted = list(dict.fromkeys([*columns, self.names[-1]]))  # the last one is where an open quote ends up
        try:
            with self._open() as file:
                end = self._form.delimiter.join([self._form.null] * len(self.names)) + "\n"
                before: pa.RecordBatch | None = None
                for batch in self._read(_WithEnd(file, end.encode()), wanted, bad):
                    if before is not None:
                        rows += before.num_rows
                        yield before.select(columns), min(_position(file) / size, 1.0)
                    before = batch if batch.num_rows else before
        except pa.ArrowInvalid as error:
            raise self._error(error, bad) from None
        except OSError as error:
            raise self._unreadable(error) from None
        if before is None or any(column[-1].is_valid for column in before.columns):
            raise UserError(f"{self._name}: a quote is never closed; it opens in row {rows + len(before or [0])}")
        yield before.slice(0, before.num_rows - 1).select(columns), 1.0

    def _read(
        self, file: io.RawIOBase, columns: Sequence[str], bad: list[pa.csv.InvalidRow]
    ) -> pa.csv.CSVStreamingReader:
        def refuse(row: pa.csv.InvalidRow) -> str:
            bad.append(row)
            return "error"

        form = self._form
        return pa.csv.open_csv(
            file,
            pa.csv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=None if form.header else list(self.names)
            ),
            pa.csv.ParseOptions(
                delimiter=form.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(self.names) > 1,  # where there is one column, an empty line is a row
                invalid_row_handler=refuse,
            ),
            pa.csv.ConvertOptions(
                column_types={name: pa.binary() for name in columns},
                include_columns=list(columns),
                null_values=[form.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                check_utf8=False,
            ),
        )

    def _open(self) -> IO[bytes]:
        try:
            return gzip.open(self._path) if self._path.suffix == ".gz" else self._path.open("rb")  # type: ignore[return-value]
        except OSError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError) -> UserError:
        return UserError(f"{self._name} cannot be read: {error.strerror or error}")

    def _error(self, error: pa.ArrowInvalid, bad: list[pa.csv.InvalidRow]) -> UserError:
        if bad:
            row = bad[-1]
            where = f", row {row.number - self._form.header}" if row.number else ""
            text = row.text if len(row.text) <= 60 else row.text[:57] + "..."
            return UserError(
                f"{self._name}{where}: {row.actual_columns} values where {row.expected_columns} are expected: {text!r}"
            )
        if "straddling" in str(error):
            return UserError(f"{self._name}: a row is longer than {BLOCK_BYTES >> 20} MB; is a quote not closed?")
        return UserError(f"{self._name} cannot be read as CSV: {error}")


class _WithEnd(io.RawIOBase):
    """A file, and one more line behind it."""

    def __init__(self, file: IO[bytes], line: bytes) -> None:
        self._file, self._line, self._last = file, line, b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        """As much as fits: what is read at once is parsed at once, and one block must hold more than the header."""
        view, filled = memoryview(buffer), 0
        while filled < len(view) and (data := self._next(len(view) - filled)):
            view[filled : filled + len(data)] = data
            filled += len(data)
        return filled

    def _next(self, size: int) -> bytes:
        data = self._file.read(size)
        if data:
            self._last = data[-1:]
            return data
        rest = self._line if self._last == b"\n" else b"\n" + self._line
        self._last, self._line = b"\n", rest[size:]
        return rest[:size]


class ParquetFile:
    """Values come with the types of the file."""

    def __init__(self, path: Path, name: str) -> None:
        """`name`: that of the file in messages."""
        self._name = name
        try:
            self._file = pa.parquet.ParquetFile(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise UserError(f"{name} cannot be read as Parquet: {error}") from None
        self.names: Sequence[str] = self._file.schema_arrow.names

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        done, total = 0, max(self._file.metadata.num_rows, 1)
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, columns=list(columns)):
                done += batch.num_rows
                yield batch, done / total
        except (pa.ArrowException, OSError) as error:
            raise UserError(f"{self._name}, after row {done}: cannot be read as Parquet: {error}") from None


def _position(file: IO[bytes]) -> int:
    """Bytes of the file on disk that were read."""
    return (file.fileobj if isinstance(file, gzip.GzipFile) else file).tell()  # type: ignore[union-attr]
