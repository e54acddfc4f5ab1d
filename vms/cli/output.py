"""Results as text: a table for people, CSV or JSON for programs.

A value is never rounded or cut. NULL is `NULL` in a table, nothing in CSV (the empty text is `""`), `null` in
JSON. JSON has no decimals, dates or infinities: those are texts there, so that no digit is lost.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TextIO

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Wide enough for any row: where no one looks at a screen, no line is folded.
_UNFOLDED = 1_000_000


def write_table(table: pa.Table, out: TextIO) -> None:
    """Aligned columns, folded to the width of the screen if `out` is one."""
    console = Console(file=out, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console = Console(file=out, highlight=False, emoji=False, markup=False, width=_UNFOLDED)
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for field in table.schema:
        shown.add_column(Text(_printable(field.name)), justify="right" if _is_number(field.type) else "left")
    for row in zip(*(column.to_pylist() for column in table.columns)):
        shown.add_row(*(Text("NULL", style="dim") if v is None else Text(_printable(as_text(v))) for v in row))
    console.print(shown)


def write_csv(table: pa.Table, out: TextIO) -> None:
    """A header and one line a row (RFC 4180 quoting, lines end with a line feed)."""
    out.write(",".join(map(_csv_cell, table.column_names)) + "\n")
    for batch in table.to_batches(max_chunksize=10_000):
        columns = [[_csv_cell(v) for v in column.to_pylist()] for column in batch.columns]
        out.writelines(",".join(row) + "\n" for row in zip(*columns))


def write_json(table: pa.Table, out: TextIO) -> None:
    """One array of objects, on one line."""
    opening = "["
    for batch in table.to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            out.write(opening + json.dumps({k: _json_value(v) for k, v in row.items()}, ensure_ascii=False))
            opening = ", "
    out.write("[]\n" if opening == "[" else "]\n")


def write_records(records: Sequence[Mapping[str, Any]], nothing: str, out: TextIO) -> None:
    """Records of one shape as a table for people; the sentence `nothing` where there is none."""
    if not records:
        out.write(f"{nothing}\n")
        return
    columns = {name.replace("_", " "): [_cell(r[name]) for r in records] for name in records[0]}
    write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), out)


def write_facts(facts: Mapping[str, Any], out: TextIO) -> None:
    """One line for each fact, the values below each other."""
    width = max(map(len, facts)) + 2
    out.writelines(f"{name:{width}}{_printable(str(value))}\n" for name, value in facts.items())


FORMATS: dict[str, Callable[[pa.Table, TextIO], None]] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
}


def as_text(value: Any) -> str:
    """A value as SQL would write it, without quotes."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return _special(value) or repr(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            return value.isoformat(sep=" ")
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _cell(value: Any) -> Any:
    return ", ".join(map(str, value)) or None if isinstance(value, list) else value


def _special(value: float) -> str:
    """The name of a number that has no digits; empty for others."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return ""


def _json_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and not _special(value):
        return value
    return as_text(value)


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    text = as_text(value)
    if not text or any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _printable(text: str) -> str:
    """Control characters as escapes: data must not move the cursor of who looks at it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
