"""The limit of Q12: lines of two ship modes joined with their orders, counted by the orders' priority.

An order's row also carries how many of its lines qualify, by ship mode, so a line needs one look-up beside its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from bench.micro.base import Emitted, arguments, line_key, positions, view_table
from bench.micro.rowtable import NONE, RowTable, add, find_or_add, has_room, place_of, remove, row_at
from vms.kernels.hashing import jit
from vms.model.changes import DELETE_ROW, RowChanges
from vms.model.text import TextPool
from vms.model.types import BIGINT, VARCHAR

_FROM, _TO = 8766, 9131  # 1994-01-01, 1995-01-01

#: Words of an order, and of a line: the first order word to count it in, or NONE.
_LIVE, _COLUMN, _MAIL, _SHIP = range(1, 5)
_MODE = 1

_VIEW = {"l_shipmode": VARCHAR, "high_line_count": BIGINT, "low_line_count": BIGINT}


class Q12:
    """Keys: text code of the ship mode. Values: lines of urgent or high priority, lines of another one."""

    def __init__(self, columns: Mapping[str, Sequence[str]], pool: TextPool) -> None:
        self._at = {
            "orders": positions(columns, "orders", "o_orderpriority"),
            "lineitem": positions(columns, "lineitem", "l_shipdate l_commitdate l_receiptdate l_shipmode"),
        }
        self._pool = pool
        self._modes = np.array([pool.code(m) for m in ("MAIL", "SHIP")], np.int64)
        self._high = np.array([pool.code(p) for p in ("1-URGENT", "2-HIGH")], np.int64)
        self._orders, self._lines = RowTable(5), RowTable(2)
        self._totals = np.zeros((2, 2), np.int64)

    def step(self, batch: Mapping[str, RowChanges]) -> Emitted:
        before = self._totals.copy()
        orders, lines = self._orders, self._lines
        for name, at in self._at.items():
            changes = batch.get(name)
            given, done = arguments(changes, at) if changes else [], 0
            while changes and done < len(changes):
                orders.make_room()
                lines.make_room()
                if name == "orders":
                    done = _take_orders(done, changes.kinds, *given, self._high, orders.parts, self._totals)
                else:
                    parts = lines.parts, orders.parts, self._totals
                    done = _take_lines(done, changes.kinds, *given, self._modes, *parts)
        changed = (before != self._totals).any(axis=1)
        after = self._totals[changed]
        return Emitted(self._modes[changed, None], after, ~after.any(axis=1))

    def result(self) -> pa.Table:
        shown = self._totals.any(axis=1)
        columns = [self._modes[shown], *self._totals[shown].T]
        return view_table(_VIEW, columns, self._pool)


@jit
def _count(order, sign, totals):
    """Add an order's lines to the totals, or take them away."""
    for m in range(2):
        totals[m, order[_COLUMN]] += sign * order[_MAIL + m]


@jit
def _forget(orders, place, row):
    """Remove an order that is neither there nor has lines that qualify."""
    if row[_LIVE] == 0 and row[_MAIL] == 0 and row[_SHIP] == 0:
        remove(orders, place)


@jit
def _take_orders(start, kinds, orderkey, priority, high, orders, totals):
    """Take changes from `start` on; returns where it stopped for want of room, or the number of changes."""
    for i in range(start, kinds.shape[0]):
        if not has_room(orders):
            return i
        order = orders[1][find_or_add(orders, orderkey[i])]
        if order[_LIVE] != 0:
            _count(order, -1, totals)
        order[_LIVE] = kinds[i] != DELETE_ROW
        if kinds[i] != DELETE_ROW:
            order[_COLUMN] = 0 if priority[i] == high[0] or priority[i] == high[1] else 1
            _count(order, 1, totals)
        else:
            _forget(orders, place_of(orders, orderkey[i]), order)
    return kinds.shape[0]


@jit
def _add(key, mode, sign, orders, totals):
    order = orders[1][find_or_add(orders, key >> 3)]
    order[mode] += sign
    if order[_LIVE] != 0:
        totals[mode - _MAIL, order[_COLUMN]] += sign
    else:
        _forget(orders, place_of(orders, key >> 3), order)


@jit
def _take_lines(
    start, kinds, orderkey, linenumber, shipped, committed, received, ship_mode, modes, lines, orders, totals
):
    for i in range(start, kinds.shape[0]):
        if not has_room(lines) or not has_room(orders):
            return i
        key = line_key(orderkey[i], linenumber[i])
        place = place_of(lines, key)
        r = row_at(lines, place)
        if r != NONE and lines[1][r, _MODE] != NONE:
            _add(key, lines[1][r, _MODE], -1, orders, totals)
        if kinds[i] == DELETE_ROW:
            if r != NONE:
                remove(lines, place)
            continue
        if r == NONE:
            r = add(lines, place, key)
        mode = NONE
        if shipped[i] < committed[i] < received[i] and _FROM <= received[i] < _TO:
            for m in range(2):
                if ship_mode[i] == modes[m]:
                    mode = _MAIL + m
        lines[1][r, _MODE] = mode
        if mode != NONE:
            _add(key, mode, 1, orders, totals)
    return kinds.shape[0]
