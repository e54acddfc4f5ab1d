"""The limit of Q1: eight aggregates over few groups of lineitem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from bench.micro.base import Emitted, arguments, line_key, positions, view_table
from bench.micro.rowtable import NONE, RowTable, add, find_or_add, has_room, place_of, remove, row_at
from vms.kernels.hashing import jit
from vms.model.changes import DELETE_ROW, RowChanges
from vms.model.text import TextPool
from vms.model.types import BIGINT, VARCHAR, decimal

_LAST_DAY = 10471  # 1998-09-02

#: Words of a group: key, number of the last step that changed it, whether the view shows it, and the sums.
_STEP, _SHOWN, _QTY, _BASE, _DISC_PRICE, _CHARGE, _DISC, _COUNT = range(1, 9)

_VIEW = {
    "l_returnflag": VARCHAR,
    "l_linestatus": VARCHAR,
    "sum_qty": decimal(25, 2),
    "sum_base_price": decimal(25, 2),
    "sum_disc_price": decimal(38, 4),
    "sum_charge": decimal(38, 6),
    "avg_qty": decimal(19, 6),
    "avg_price": decimal(19, 6),
    "avg_disc": decimal(19, 6),
    "count_order": BIGINT,
}


class Q01:
    """Keys: text codes of the two flags. Values: the view's eight aggregates in the view's scales.

    Averages are cut off after their last digit, as DataFusion does.
    """

    def __init__(self, columns: Mapping[str, Sequence[str]], pool: TextPool) -> None:
        wanted = "l_quantity l_extendedprice l_discount l_tax l_returnflag l_linestatus l_shipdate"
        self._at = positions(columns, "lineitem", wanted)
        self._pool = pool
        self._lines = RowTable(8)
        self._groups = RowTable(9, places=16)
        self._step = 0

    def step(self, batch: Mapping[str, RowChanges]) -> Emitted:
        self._step += 1
        lines, groups = self._lines, self._groups
        if changes := batch.get("lineitem"):
            given, done = arguments(changes, self._at), 0
            while done < len(changes):
                lines.make_room()
                groups.make_room()
                done = _take_lines(done, changes.kinds, *given, lines.parts, groups.parts, self._step)
        return Emitted(*_emit(groups.rows[: len(groups)], self._step))

    def result(self) -> pa.Table:
        groups = self._groups.live()
        groups[:, _STEP] = 0
        keys, values, removed = _emit(groups, 0)
        return view_table(_VIEW, np.hstack([keys, values])[~removed].T, self._pool)


@jit
def _add(row, sign, groups, step):
    if row[7] > _LAST_DAY:
        return
    group = groups[1][find_or_add(groups, (row[5] << 32) | row[6])]
    price, discount = sign * row[2], row[3]
    group[_STEP] = step
    group[_QTY] += sign * row[1]
    group[_BASE] += price
    group[_DISC_PRICE] += price * (100 - discount)
    group[_CHARGE] += price * (100 - discount) * (100 + row[4])
    group[_DISC] += sign * discount
    group[_COUNT] += sign


@jit
def _take_lines(
    start, kinds, orderkey, linenumber, quantity, price, discount, tax, flag, status, shipped,
    lines, groups, step,
):  # fmt: skip
    """Take changes from `start` on; returns where it stopped for want of room, or the number of changes."""
    for i in range(start, kinds.shape[0]):
        if not has_room(lines) or not has_room(groups):
            return i
        key = line_key(orderkey[i], linenumber[i])
        place = place_of(lines, key)
        r = row_at(lines, place)
        if r != NONE:
            _add(lines[1][r], -1, groups, step)
        if kinds[i] == DELETE_ROW:
            if r != NONE:
                remove(lines, place)
            continue
        if r == NONE:
            r = add(lines, place, key)
        row = lines[1][r]
        row[1], row[2], row[3], row[4] = quantity[i], price[i], discount[i], tax[i]
        row[5], row[6], row[7] = flag[i], status[i], shipped[i]
        _add(row, 1, groups, step)
    return kinds.shape[0]


@jit
def _emit(groups, step):
    """View rows of the groups changed in `step`. There are so few groups that all are looked at.

    An empty group keeps its place: there are no more than the flags allow, and it is likely to return.
    """
    keys = np.empty((groups.shape[0], 2), np.int64)
    values = np.zeros((groups.shape[0], 8), np.int64)
    removed = np.zeros(groups.shape[0], np.bool_)
    n = 0
    for g in range(groups.shape[0]):
        count = groups[g, _COUNT]
        if groups[g, _STEP] != step or (count == 0 and groups[g, _SHOWN] == 0):
            continue
        keys[n, 0], keys[n, 1] = groups[g, 0] >> 32, groups[g, 0] & 0xFFFFFFFF
        removed[n] = count == 0
        groups[g, _SHOWN] = count > 0
        if count > 0:
            for j in range(4):
                values[n, j] = groups[g, _QTY + j]
            values[n, 4] = groups[g, _QTY] * 10000 // count
            values[n, 5] = groups[g, _BASE] * 10000 // count
            values[n, 6] = groups[g, _DISC] * 10000 // count
            values[n, 7] = count
        n += 1
    return keys[:n], values[:n], removed[:n]
