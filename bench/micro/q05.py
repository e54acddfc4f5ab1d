"""The limit of Q5: six tables joined, revenue for each nation of one region.

Revenue is kept for every nation, whatever its region: nations and regions are so few that they are looked at when
a view row is made. Customers, orders and suppliers carry the nation that their lines count for, or NONE. Orders hang
in a doubly linked list under their customer, lines under their order and under their supplier. A parent that is named
but not there is kept, not LIVE, while something hangs under it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from bench.micro.base import Emitted, arguments, line_key, positions, view_table
from bench.micro.rowtable import NONE, RowTable, add, has_room, place_of, remove, row_at
from vms.kernels.hashing import jit
from vms.model.changes import DELETE_ROW, RowChanges
from vms.model.text import TextPool
from vms.model.types import VARCHAR, decimal

_FROM, _TO = 8766, 9131  # 1994-01-01, 1995-01-01
_NATIONS, _REGIONS = 25, 5

#: Words of a customer, supplier or order; the last three are an order's.
_LIVE, _NATION, _HEAD, _CUSTOMER, _IN_CUSTOMER = range(1, 6)
#: Words of a line. The places in a list are two words each: the next row, the one before.
_SUPPLIER, _REVENUE, _IN_ORDER, _IN_SUPPLIER = 1, 2, 3, 5

_VIEW = {"n_name": VARCHAR, "revenue": decimal(38, 4)}


class Q05:
    """Keys: text code of the nation's name. Values: revenue (scale 4)."""

    def __init__(self, columns: Mapping[str, Sequence[str]], pool: TextPool) -> None:
        wanted = {
            "region": "r_name",
            "nation": "n_regionkey n_name",
            "customer": "c_nationkey",
            "supplier": "s_nationkey",
            "orders": "o_custkey o_orderdate",
            "lineitem": "l_suppkey l_extendedprice l_discount",
        }
        self._at = {name: positions(columns, name, text) for name, text in wanted.items()}
        self._pool, self._asia = pool, pool.code("ASIA")
        self._customers, self._suppliers = RowTable(4), RowTable(4)
        self._orders, self._lines = RowTable(7), RowTable(7)
        self._in_asia = np.zeros(_REGIONS, np.bool_)
        self._region, self._name = np.full(_NATIONS, NONE), np.zeros(_NATIONS, np.int64)
        self._totals = np.zeros((_NATIONS, 2), np.int64)
        self._shown: dict[int, int] = {}

    def step(self, batch: Mapping[str, RowChanges]) -> Emitted:
        for name, at in self._at.items():
            changes = batch.get(name)
            if changes is not None:
                given, done = arguments(changes, at), 0
                while done < len(changes):
                    for table in (self._customers, self._suppliers, self._orders, self._lines):
                        table.make_room()
                    done = self._take(name, done, changes, given)
        return self._difference()

    def _take(self, name: str, start: int, changes: RowChanges, given: list) -> int:
        """Take changes from `start` on; returns where it stopped for want of room."""
        customers, suppliers, orders, lines = (
            t.parts for t in (self._customers, self._suppliers, self._orders, self._lines)
        )
        match name:
            case "region":
                _take_regions(changes.kinds, *given, self._asia, self._in_asia)
            case "nation":
                _take_nations(changes.kinds, *given, self._region, self._name)
            case "customer":
                parts = customers, orders, suppliers, lines, self._totals
                return _take_customers(start, changes.kinds, *given, *parts)
            case "supplier":
                return _take_suppliers(start, changes.kinds, *given, suppliers, orders, lines, self._totals)
            case "orders":
                parts = customers, orders, suppliers, lines, self._totals
                return _take_orders(start, changes.kinds, *given, *parts)
            case _:
                return _take_lines(start, changes.kinds, *given, lines, orders, suppliers, self._totals)
        return len(changes)

    def _difference(self) -> Emitted:
        """What differs from the rows shown, which from now on are the rows as they are."""
        before, now = self._shown, self._rows()
        self._shown = now
        gone = [name for name in before if name not in now]
        changed = [name for name, revenue in now.items() if before.get(name) != revenue]
        values = [0] * len(gone) + [now[name] for name in changed]
        removed = np.arange(len(values)) < len(gone)
        return Emitted(np.array([gone + changed], np.int64).T, np.array([values], np.int64).T, removed)

    def _rows(self) -> dict[int, int]:
        """Revenue by name: two nations may have the same one."""
        rows: dict[int, int] = {}
        there = (self._totals[:, 1] != 0) & (self._region != NONE) & self._in_asia[self._region]
        for nation in np.flatnonzero(there).tolist():
            name = int(self._name[nation])
            rows[name] = rows.get(name, 0) + int(self._totals[nation, 0])
        return rows

    def result(self) -> pa.Table:
        rows = self._rows()
        return view_table(_VIEW, [np.array(list(part), np.int64) for part in (rows, rows.values())], self._pool)


@jit
def _take_regions(kinds, key, name, asia, in_asia):
    for i in range(kinds.shape[0]):
        in_asia[key[i]] = kinds[i] != DELETE_ROW and name[i] == asia


@jit
def _take_nations(kinds, key, region, name, regions, names):
    for i in range(kinds.shape[0]):
        regions[key[i]] = NONE if kinds[i] == DELETE_ROW else region[i]
        names[key[i]] = name[i]


@jit
def _parent(table, key):
    """The number of the row of `key`, which is added, not live, if it is not there."""
    place = place_of(table, key)
    r = row_at(table, place)
    if r == NONE:
        r = add(table, place, key)
        table[1][r, _LIVE], table[1][r, _NATION], table[1][r, _HEAD] = 0, NONE, NONE
    return r


@jit
def _forget(table, r):
    """Remove a parent that is not live if nothing hangs under it."""
    if table[1][r, _LIVE] == 0 and table[1][r, _HEAD] == NONE:
        remove(table, place_of(table, table[1][r, 0]))


@jit
def _link(rows, r, at, parents, p):
    """Put row `r` into the list of parent `p`; `at` is where the row keeps its place in it."""
    head = parents[p, _HEAD]
    rows[r, at], rows[r, at + 1] = head, NONE
    if head != NONE:
        rows[head, at + 1] = r
    parents[p, _HEAD] = r


@jit
def _unlink(rows, r, at, parents, p):
    following, previous = rows[r, at], rows[r, at + 1]
    if following != NONE:
        rows[following, at + 1] = previous
    if previous != NONE:
        rows[previous, at] = following
    else:
        parents[p, _HEAD] = following


@jit
def _count(line, sign, order_nation, supplier_nation, totals):
    if order_nation != NONE and order_nation == supplier_nation:
        totals[order_nation, 0] += sign * line[_REVENUE]
        totals[order_nation, 1] += sign


@jit
def _set_nation(o, nation, orders, suppliers, lines, totals):
    """Let the lines of an order count for another nation."""
    before = orders[1][o, _NATION]
    orders[1][o, _NATION] = nation
    line = orders[1][o, _HEAD]
    while line != NONE and before != nation:
        row = lines[1][line]
        supplier_nation = suppliers[1][_parent(suppliers, row[_SUPPLIER]), _NATION]
        _count(row, -1, before, supplier_nation, totals)
        _count(row, 1, nation, supplier_nation, totals)
        line = row[_IN_ORDER]


@jit
def _take_customers(start, kinds, custkey, nation, customers, orders, suppliers, lines, totals):
    """Take changes from `start` on; returns where it stopped for want of room, or the number of changes."""
    for i in range(start, kinds.shape[0]):
        if not has_room(customers):
            return i
        c = _parent(customers, custkey[i])
        live = kinds[i] != DELETE_ROW
        customers[1][c, _LIVE] = live
        customers[1][c, _NATION] = nation[i] if live else NONE
        o = customers[1][c, _HEAD]
        while o != NONE:
            _set_nation(o, customers[1][c, _NATION], orders, suppliers, lines, totals)
            o = orders[1][o, _IN_CUSTOMER]
        _forget(customers, c)
    return kinds.shape[0]


@jit
def _take_suppliers(start, kinds, suppkey, nation, suppliers, orders, lines, totals):
    for i in range(start, kinds.shape[0]):
        if not has_room(suppliers):
            return i
        s = _parent(suppliers, suppkey[i])
        live = kinds[i] != DELETE_ROW
        before = suppliers[1][s, _NATION]
        suppliers[1][s, _LIVE] = live
        suppliers[1][s, _NATION] = nation[i] if live else NONE
        line = suppliers[1][s, _HEAD]
        while line != NONE:
            row = lines[1][line]
            order_nation = orders[1][_parent(orders, row[0] >> 3), _NATION]
            _count(row, -1, order_nation, before, totals)
            _count(row, 1, order_nation, suppliers[1][s, _NATION], totals)
            line = row[_IN_SUPPLIER]
        _forget(suppliers, s)
    return kinds.shape[0]


@jit
def _take_orders(start, kinds, orderkey, custkey, date, customers, orders, suppliers, lines, totals):
    for i in range(start, kinds.shape[0]):
        if not has_room(orders) or not has_room(customers):
            return i
        o = _parent(orders, orderkey[i])
        order, nation = orders[1][o], NONE
        if order[_LIVE] != 0:
            c = _parent(customers, order[_CUSTOMER])
            _unlink(orders[1], o, _IN_CUSTOMER, customers[1], c)
            _forget(customers, c)
        order[_LIVE] = kinds[i] != DELETE_ROW and _FROM <= date[i] < _TO
        if order[_LIVE] != 0:
            order[_CUSTOMER] = custkey[i]
            c = _parent(customers, custkey[i])
            _link(orders[1], o, _IN_CUSTOMER, customers[1], c)
            nation = customers[1][c, _NATION]
        _set_nation(o, nation, orders, suppliers, lines, totals)
        _forget(orders, o)
    return kinds.shape[0]


@jit
def _take_lines(
    start, kinds, orderkey, linenumber, suppkey, price, discount, lines, orders, suppliers, totals
):  # fmt: skip
    for i in range(start, kinds.shape[0]):
        if not has_room(lines) or not has_room(orders) or not has_room(suppliers):
            return i
        key = line_key(orderkey[i], linenumber[i])
        place = place_of(lines, key)
        r = row_at(lines, place)
        if r != NONE:
            line = lines[1][r]
            o, s = _parent(orders, orderkey[i]), _parent(suppliers, line[_SUPPLIER])
            _count(line, -1, orders[1][o, _NATION], suppliers[1][s, _NATION], totals)
            _unlink(lines[1], r, _IN_ORDER, orders[1], o)
            _unlink(lines[1], r, _IN_SUPPLIER, suppliers[1], s)
            _forget(suppliers, s)
            _forget(orders, o)
        if kinds[i] == DELETE_ROW:
            if r != NONE:
                remove(lines, place)
            continue
        if r == NONE:
            r = add(lines, place, key)
        line = lines[1][r]
        line[_SUPPLIER], line[_REVENUE] = suppkey[i], price[i] * (100 - discount[i])
        o, s = _parent(orders, orderkey[i]), _parent(suppliers, suppkey[i])
        _link(lines[1], r, _IN_ORDER, orders[1], o)
        _link(lines[1], r, _IN_SUPPLIER, suppliers[1], s)
        _count(line, 1, orders[1][o, _NATION], suppliers[1][s, _NATION], totals)
    return kinds.shape[0]
