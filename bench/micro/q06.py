"""The limit of Q6: one sum over a selection of lineitem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from bench.micro.base import Emitted, arguments, line_key, positions
from bench.micro.rowtable import NONE, RowTable, add, has_room, place_of, remove, row_at
from vms.kernels.hashing import jit
from vms.model.arrow import from_column
from vms.model.changes import DELETE_ROW, Column, RowChanges
from vms.model.text import TextPool
from vms.model.types import decimal

_FROM, _TO = 8766, 9131  # 1994-01-01, 1995-01-01


class Q06:
    """Values: revenue (scale 4), and the number of rows behind it; the view shows NULL where that is 0."""

    def __init__(self, columns: Mapping[str, Sequence[str]], pool: TextPool) -> None:
        self._at = positions(columns, "lineitem", "l_quantity l_extendedprice l_discount l_shipdate")
        self._pool = pool
        self._lines = RowTable(5)
        self._total = np.zeros(2, np.int64)

    def step(self, batch: Mapping[str, RowChanges]) -> Emitted:
        before = self._total.copy()
        if changes := batch.get("lineitem"):
            given, done = arguments(changes, self._at), 0
            while done < len(changes):
                self._lines.make_room()
                done = _take_lines(done, changes.kinds, *given, self._lines.parts, self._total)
        changed = int((self._total != before).any())
        values = self._total.reshape(1, 2)[:changed].copy()
        return Emitted(np.empty((changed, 0), np.int64), values, np.zeros(changed, np.bool_))

    def result(self) -> pa.Table:
        revenue = Column(self._total[:1], None if self._total[1] else np.zeros(1, np.bool_))
        return pa.table({"revenue": from_column(decimal(38, 4), revenue, self._pool)})


@jit
def _add(row, sign, total):
    quantity, price, discount, shipped = row[1], row[2], row[3], row[4]
    if _FROM <= shipped < _TO and 5 <= discount <= 7 and quantity < 2400:
        total[0] += sign * price * discount
        total[1] += sign


@jit
def _take_lines(start, kinds, orderkey, linenumber, quantity, price, discount, shipped, lines, total):
    """Take changes from `start` on; returns where it stopped for want of room, or the number of changes."""
    for i in range(start, kinds.shape[0]):
        if not has_room(lines):
            return i
        key = line_key(orderkey[i], linenumber[i])
        place = place_of(lines, key)
        r = row_at(lines, place)
        if r != NONE:
            _add(lines[1][r], -1, total)
        if kinds[i] == DELETE_ROW:
            if r != NONE:
                remove(lines, place)
            continue
        if r == NONE:
            r = add(lines, place, key)
        row = lines[1][r]
        row[1], row[2], row[3], row[4] = quantity[i], price[i], discount[i], shipped[i]
        _add(row, 1, total)
    return kinds.shape[0]
