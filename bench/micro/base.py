"""What every hand-written limit takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from vms.kernels.hashing import jit
from vms.model.arrow import from_column
from vms.model.changes import Bool, Column, Int64, RowChanges
from vms.model.text import TextPool
from vms.model.types import SqlType


class Emitted(NamedTuple):
    """View rows: key columns, new values, and whether the row is gone (then its values mean nothing)."""

    keys: Int64
    values: Int64
    removed: Bool


class Limit(Protocol):
    """One view, maintained by a program that knows nothing else."""

    def __init__(self, columns: Mapping[str, Sequence[str]], pool: TextPool) -> None:
        """`columns`: for each table the names of `RowChanges.values`; `pool` gave its text codes."""

    def step(self, batch: Mapping[str, RowChanges]) -> Emitted:
        """Take a batch; return the view rows that it changed, each key once."""

    def result(self) -> pa.Table:
        """The view's rows, with the view's column types."""


def positions(columns: Mapping[str, Sequence[str]], table: str, wanted: str) -> list[int]:
    """Where the `wanted` names (separated by spaces) stand among the table's columns."""
    names = list(columns[table])
    return [names.index(name) for name in wanted.split()]


def arguments(changes: RowChanges, at: Sequence[int]) -> list[Int64]:
    """Keys and then the values at the given positions, as the kernels take them."""
    return [k.codes for k in changes.keys] + [changes.values[p].codes for p in at]


def view_table(fields: Mapping[str, SqlType], codes: Sequence[Int64], pool: TextPool) -> pa.Table:
    """Columns of codes as a table."""
    arrays = [from_column(t, Column(np.ascontiguousarray(c)), pool) for t, c in zip(fields.values(), codes)]
    return pa.table(arrays, names=list(fields))


@jit
def line_key(orderkey, linenumber):
    """One word for the key of a line; line numbers are 1 to 7."""
    return orderkey * 8 + linenumber
