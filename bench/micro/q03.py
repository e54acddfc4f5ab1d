"""The limit of Q3: customer, orders and lineitem joined, revenue for each order, the first ten orders.

An order's row also carries the sum of its late lines and whether order and customer qualify, so a line needs
one look-up beside its own. Orders that qualify by date hang in a doubly linked list under their customer. The first
ten are kept in order; only when one of them falls behind where the tenth was, all orders are looked through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from bench.micro.base import Emitted, arguments, line_key, positions, view_table
from bench.micro.rowtable import NONE, RowTable, add, find_or_add, has_room, place_of, remove, row_at
from vms.kernels.hashing import jit
from vms.model.changes import DELETE_ROW, Int64, RowChanges
from vms.model.text import TextPool
from vms.model.types import BIGINT, DATE, INTEGER, decimal

_DAY = 9204  # 1995-03-15

#: Words of an order. LIVE: its base row is there. ACTIVE: it joins. SHOWN: it is among the first ten.
_LIVE, _CUST, _DATE, _PRIO, _REVENUE, _LINES, _ACTIVE, _NEXT, _PREV, _STEP, _SHOWN = range(1, 12)
#: Words of a customer; one that orders name but whose base row is not there is not LIVE.
_C_LIVE, _C_SEGMENT, _C_HEAD = range(1, 4)

#: How many orders the view has, and the words of one of them in the order that they are kept in.
_FIRST = 10
_F_REVENUE, _F_DATE, _F_KEY, _F_PRIO = range(4)

_VIEW = {"l_orderkey": BIGINT, "o_orderdate": DATE, "o_shippriority": INTEGER, "revenue": decimal(38, 4)}


class Q03:
    """Keys: order key, order date, ship priority. Values: revenue (scale 4)."""

    def __init__(self, columns: Mapping[str, Sequence[str]], pool: TextPool) -> None:
        self._at = {
            "customer": positions(columns, "customer", "c_mktsegment"),
            "orders": positions(columns, "orders", "o_custkey o_orderdate o_shippriority"),
            "lineitem": positions(columns, "lineitem", "l_extendedprice l_discount l_shipdate"),
        }
        self._pool = pool
        self._segment = pool.code("BUILDING")
        self._customers, self._orders, self._lines = RowTable(4), RowTable(12), RowTable(4)
        self._first = np.empty((0, 4), np.int64)
        self._touched = np.empty(1024, np.int64)
        self._touched_count = np.zeros(1, np.int64)
        self._step = 0

    def step(self, batch: Mapping[str, RowChanges]) -> Emitted:
        self._step += 1
        self._touched_count[0] = 0
        for name in [n for n in self._at if n in batch]:
            changes = batch[name]
            given, done = arguments(changes, self._at[name]), 0
            while done < len(changes):
                done = self._take(name, done, changes, given)
        before, touched = self._first, self._touched[: self._touched_count[0]]
        self._first = _first(self._orders.parts, touched, before)
        return Emitted(*_difference(before, self._first))

    def _take(self, name: str, start: int, changes: RowChanges, given: list[Int64]) -> int:
        """Make room, then take changes from `start` on; returns where it stopped for want of room."""
        customers, orders, lines = self._customers, self._orders, self._lines
        for table in (customers, orders, lines):
            table.make_room()
        if len(self._touched) < len(orders.rows):
            self._touched = np.resize(self._touched, len(orders.rows))
        view = (self._touched, self._touched_count, self._step)
        if name == "lineitem":
            return _take_lines(start, changes.kinds, *given, lines.parts, orders.parts, *view)
        kernel = _take_orders if name == "orders" else _take_customers
        return kernel(start, changes.kinds, *given, self._segment, customers.parts, orders.parts, *view)

    def result(self) -> pa.Table:
        table = view_table(_VIEW, list(self._first[:, [_F_KEY, _F_DATE, _F_PRIO, _F_REVENUE]].T), self._pool)
        return table.select(["l_orderkey", "revenue", "o_orderdate", "o_shippriority"])


@jit
def _touch(orders, o, touched, touched_count, step):
    """Remember, once a step, that the order's view row is to be looked at."""
    if orders[1][o, _STEP] != step:
        orders[1][o, _STEP] = step
        touched[touched_count[0]] = o
        touched_count[0] += 1


@jit
def _add_line(line, sign, orders, touched, touched_count, step):
    if line[3] <= _DAY:
        return
    o = find_or_add(orders, line[0] >> 3)
    order = orders[1][o]
    order[_REVENUE] += sign * line[1] * (100 - line[2])
    order[_LINES] += sign
    if order[_ACTIVE] != 0 or (order[_LIVE] == 0 and order[_LINES] == 0):
        _touch(orders, o, touched, touched_count, step)


@jit
def _take_lines(
    start, kinds, orderkey, linenumber, price, discount, shipped, lines, orders, touched, touched_count, step
):
    for i in range(start, kinds.shape[0]):
        if not has_room(lines) or not has_room(orders):
            return i
        key = line_key(orderkey[i], linenumber[i])
        place = place_of(lines, key)
        r = row_at(lines, place)
        if r != NONE:
            _add_line(lines[1][r], -1, orders, touched, touched_count, step)
        if kinds[i] == DELETE_ROW:
            if r != NONE:
                remove(lines, place)
            continue
        if r == NONE:
            r = add(lines, place, key)
        line = lines[1][r]
        line[1], line[2], line[3] = price[i], discount[i], shipped[i]
        _add_line(line, 1, orders, touched, touched_count, step)
    return kinds.shape[0]


@jit
def _customer(customers, key):
    """The number of a customer's row, with an empty list if it is new."""
    place = place_of(customers, key)
    c = row_at(customers, place)
    if c == NONE:
        c = add(customers, place, key)
        customers[1][c, _C_LIVE], customers[1][c, _C_SEGMENT], customers[1][c, _C_HEAD] = 0, 0, NONE
    return c


@jit
def _forget_customer(customers, c):
    """Remove a customer that is neither there nor named by an order."""
    if customers[1][c, _C_LIVE] == 0 and customers[1][c, _C_HEAD] == NONE:
        remove(customers, place_of(customers, customers[1][c, 0]))


@jit
def _unlink(orders, o, customers):
    """Take the order out of its customer's list."""
    rows = orders[1]
    next_order, prev_order = rows[o, _NEXT], rows[o, _PREV]
    if next_order != NONE:
        rows[next_order, _PREV] = prev_order
    if prev_order != NONE:
        rows[prev_order, _NEXT] = next_order
    else:
        c = _customer(customers, rows[o, _CUST])
        customers[1][c, _C_HEAD] = next_order
        _forget_customer(customers, c)


@jit
def _link(orders, o, customers, segment):
    """Put the order into its customer's list; it joins if the customer qualifies."""
    rows = orders[1]
    customer = customers[1][_customer(customers, rows[o, _CUST])]
    head = customer[_C_HEAD]
    rows[o, _NEXT], rows[o, _PREV] = head, NONE
    if head != NONE:
        rows[head, _PREV] = o
    customer[_C_HEAD] = o
    rows[o, _ACTIVE] = customer[_C_LIVE] != 0 and customer[_C_SEGMENT] == segment


@jit
def _take_orders(
    start, kinds, orderkey, custkey, date, priority, segment, customers, orders, touched, touched_count, step
):
    for i in range(start, kinds.shape[0]):
        if not has_room(orders) or not has_room(customers):
            return i
        o = find_or_add(orders, orderkey[i])
        order = orders[1][o]
        if order[_LIVE] != 0 and order[_DATE] < _DAY:
            _unlink(orders, o, customers)
        order[_ACTIVE] = 0
        order[_LIVE] = kinds[i] != DELETE_ROW
        if kinds[i] != DELETE_ROW:
            order[_CUST], order[_DATE], order[_PRIO] = custkey[i], date[i], priority[i]
            if date[i] < _DAY:
                _link(orders, o, customers, segment)
        if order[_ACTIVE] != 0 or order[_SHOWN] != 0 or order[_LIVE] == 0:
            _touch(orders, o, touched, touched_count, step)
    return kinds.shape[0]


@jit
def _take_customers(start, kinds, custkey, market_segment, segment, customers, orders, touched, touched_count, step):
    for i in range(start, kinds.shape[0]):
        if not has_room(customers):
            return i
        c = _customer(customers, custkey[i])
        customer = customers[1][c]
        before = customer[_C_LIVE] != 0 and customer[_C_SEGMENT] == segment
        after = kinds[i] != DELETE_ROW and market_segment[i] == segment
        customer[_C_LIVE] = kinds[i] != DELETE_ROW
        customer[_C_SEGMENT] = market_segment[i]
        if before != after:
            o = customer[_C_HEAD]
            while o != NONE:
                orders[1][o, _ACTIVE] = after
                _touch(orders, o, touched, touched_count, step)
                o = orders[1][o, _NEXT]
        _forget_customer(customers, c)
    return kinds.shape[0]


@jit
def _precedes(order, other):
    """Whether an order (a row of the table) comes before one of the first."""
    if order[_REVENUE] != other[_F_REVENUE]:
        return order[_REVENUE] > other[_F_REVENUE]
    if order[_DATE] != other[_F_DATE]:
        return order[_DATE] < other[_F_DATE]
    return order[0] < other[_F_KEY]


@jit
def _insert(order, first, count):
    """Put a visible order in its place among the first `count`; returns how many they are then."""
    if order[_ACTIVE] == 0 or order[_LINES] <= 0:
        return count
    place = min(count, _FIRST)
    while place > 0 and _precedes(order, first[place - 1]):
        if place < _FIRST:
            first[place] = first[place - 1]
        place -= 1
    if place == _FIRST:
        return count
    first[place, _F_REVENUE], first[place, _F_DATE] = order[_REVENUE], order[_DATE]
    first[place, _F_KEY], first[place, _F_PRIO] = order[0], order[_PRIO]
    return min(count + 1, _FIRST)


@jit
def _first(orders, touched, before):
    """The first orders after the touched ones changed; those with neither base row nor lines are forgotten."""
    first, count = np.empty((_FIRST, 4), np.int64), 0
    for b in range(before.shape[0]):
        order = orders[1][row_at(orders, place_of(orders, before[b, _F_KEY]))]
        order[_SHOWN] = 0
        same = order[_REVENUE] == before[b, _F_REVENUE] and order[_DATE] == before[b, _F_DATE]
        if same and order[_PRIO] == before[b, _F_PRIO]:
            count = _insert(order, first, count)
    for t in range(touched.shape[0]):
        order = orders[1][touched[t]]
        among = False
        for i in range(count):
            among = among or first[i, _F_KEY] == order[0]
        if not among:
            count = _insert(order, first, count)
    if before.shape[0] == _FIRST and (count < _FIRST or _falls_behind(first[-1], before[-1])):
        count = 0
        for place in range(orders[0].shape[0]):
            if row_at(orders, place) != NONE:
                count = _insert(orders[1][row_at(orders, place)], first, count)
    for i in range(count):
        orders[1][row_at(orders, place_of(orders, first[i, _F_KEY])), _SHOWN] = 1
    for t in range(touched.shape[0]):
        order = orders[1][touched[t]]
        if order[_LIVE] == 0 and order[_LINES] == 0:
            remove(orders, place_of(orders, order[0]))
    return first[:count]


@jit
def _falls_behind(order, other):
    """Whether one of the first orders comes after another one."""
    if order[_F_REVENUE] != other[_F_REVENUE]:
        return order[_F_REVENUE] < other[_F_REVENUE]
    if order[_F_DATE] != other[_F_DATE]:
        return order[_F_DATE] > other[_F_DATE]
    return order[_F_KEY] > other[_F_KEY]


@jit
def _difference(before, after):
    """Rows of keys (order, date, priority) that are gone, and those that are new or have another revenue."""
    keys = np.empty((before.shape[0] + after.shape[0], 3), np.int64)
    values = np.zeros((len(keys), 1), np.int64)
    removed = np.zeros(len(keys), np.bool_)
    n = 0
    for gone in (True, False):
        rows, others = (before, after) if gone else (after, before)
        for i in range(rows.shape[0]):
            found = False
            for j in range(others.shape[0]):
                same = rows[i, _F_KEY] == others[j, _F_KEY] and rows[i, _F_DATE] == others[j, _F_DATE]
                same = same and rows[i, _F_PRIO] == others[j, _F_PRIO]
                found = found or (same and (gone or rows[i, _F_REVENUE] == others[j, _F_REVENUE]))
            if not found:
                keys[n, 0], keys[n, 1], keys[n, 2] = rows[i, _F_KEY], rows[i, _F_DATE], rows[i, _F_PRIO]
                values[n, 0], removed[n] = rows[i, _F_REVENUE], gone
                n += 1
    return keys[:n], values[:n], removed[:n]
