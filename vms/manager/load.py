"""Rows of a file into a table (`vms load`).

The file is read twice. First everything is checked: its columns, and every value against its column. Only then
rows are written, so a file with a mistake leaves the table as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from vms.errors import InvalidValue, UnknownName, UserError
from vms.manager.database import Database
from vms.manager.row_files import CsvFile, CsvForm, ParquetFile, RowFile
from vms.model.arrow import cast_to
from vms.model.table import BaseTable, TableColumn
from vms.model.token import Token
from vms.model.types import VARCHAR, Kind

#: Rows of one write. Not higher, because a write is one entry of the change stream and taken in as a whole;
#: not lower, or the durable write of each would show.
PUT_ROWS = 10_000
_SUFFIXES = {".csv": "csv", ".parquet": "parquet"}
#: Told how much is done, from 0 to 1.
Progress = Callable[[float], None]


class Load:
    """One file on its way into one table. `check` first, then `write`."""

    def __init__(
        self, db: Database, table: BaseTable, name: str, file: RowFile, chosen: Sequence[str] | None = None
    ) -> None:
        """`name`: that of the file in messages. `chosen`: its columns that are taken; None: all of them."""
        self._db, self._table, self._file, self.name = db, table, file, name
        self._columns = self._match(chosen)
        #: Rows of the file, when it is checked; and those that are in the table.
        self.rows = self.written = 0

    def check(self, progress: Progress) -> int:
        """Read the whole file; raises UserError that names row and column of the first value that does not fit."""
        self.rows = 0
        for rows, share in self._batches():
            self.rows += rows.num_rows
            progress(share)
        return self.rows

    def write(self, progress: Progress, skip: int = 0) -> Token:
        """Write all rows after the first `skip`; the token of all of them."""
        token, seen = Token(), 0
        for rows, _ in self._batches():
            for start in range(0, rows.num_rows, PUT_ROWS):
                piece = rows.slice(start, PUT_ROWS)
                left = piece.slice(max(skip - seen, 0)) if seen < skip else piece
                seen += piece.num_rows
                if left.num_rows:
                    token = token | self._db.put(self._table.name, left)
                self.written = seen
                progress(seen / max(self.rows, 1))
        return token

    def _match(self, chosen: Sequence[str] | None) -> dict[str, TableColumn]:
        """The column of the table for each column of the file, by name; capitals and outer spaces do not count."""
        names, known = list(self._file.names), {c.name: c for c in self._table.visible_columns}
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"{self.name} has two columns named {name}; give one of them another name")
        if chosen is not None:
            by_fold = {_fold(n): n for n in names}
            for name in chosen:
                if _fold(name) not in by_fold:
                    raise UnknownName(f"column of {self.name}", name, names)
            names = [by_fold[_fold(name)] for name in chosen]
        found: dict[str, TableColumn] = {}
        for name in names:
            column = known.get(_fold(name))
            if column is None:
                near = UnknownName(f"column of table {self._table.name}", name, known)
                raise UserError(f"{self.name}: {near}; --columns names those to take")
            if column in found.values():
                raise UserError(f"{self.name} has two columns for {column.name}")
            found[name] = column
        for column in known.values():
            if column not in found.values() and not column.nullable:
                raise UserError(f"{self.name} has no column {column.name}, which cannot be NULL")
        return found

    def _batches(self) -> Iterator[tuple[pa.Table, float]]:
        first = 1
        for batch, share in self._file.batches(list(self._columns)):
            yield pa.table({c.name: self._cast(c, batch.column(n), first) for n, c in self._columns.items()}), share
            first += batch.num_rows

    def _cast(self, column: TableColumn, values: pa.Array, first: int) -> pa.Array:
        """`first`: the number of the first row in the file."""
        try:
            if pa.types.is_binary(values.type):
                values = cast_to(VARCHAR, values)
            array = cast_to(column.type, values)
        except InvalidValue as error:
            raise InvalidValue(f"{self._at(column, error.row, first)}: {error.reason}") from None
        if array.null_count and not column.nullable:
            row = array.is_valid().index(False).as_py()
            hint = '; the empty text is ""' if column.type.kind is Kind.VARCHAR else ""
            raise InvalidValue(f"{self._at(column, row, first)}: it cannot be NULL{hint}")
        return array

    def _at(self, column: TableColumn, row: int | None, first: int) -> str:
        return f"{self.name}{'' if row is None else f', row {first + row}'}, column {column.name}"


def _fold(name: str) -> str:
    return name.strip().lower()


def open_file(
    path: Path, name: str, format_: str | None, form: CsvForm, table: BaseTable, names: Sequence[str] | None = None
) -> RowFile:
    """The file at `path`, called `name` in messages; `format_` None: by that name.

    `names`: the columns of a CSV file without a header; None: those of the table.
    """
    suffixes = [s.lower() for s in Path(name).suffixes if s.lower() != ".gz"]
    kind = format_ or _SUFFIXES.get((suffixes or [""])[-1])
    if kind is None:
        raise UserError(f"the name of {name} does not tell its format; say --format csv or --format parquet")
    if kind == "parquet":
        return ParquetFile(path, name)
    return CsvFile(path, name, form, names or [c.name for c in table.visible_columns])
