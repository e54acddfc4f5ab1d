"""Small tables, views over them and random writes: what the simulation and the fault tests feed to the system.

The tables of `SMALL` are those of TPC-H Q1, Q3 and Q6 with few columns and few keys, so that rows meet often: in
groups, in joins, and at the same key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

from vms.model.rowkey import encode_keys
from vms.model.table import BaseTable, Encoding, TableColumn
from vms.model.types import BIGINT, DATE, DOUBLE, INTEGER, VARCHAR, decimal
from vms.store.base import DELETE_COLUMN, DELETE_VERSION, PUT, Cell, Mutation
from vms.stream.encode import RowEncoder
from vms.testing.oracle import DataFusionOracle, DuckOracle, Oracle

TABLES = {
    t.name: t
    for t in (
        BaseTable(
            "customer",
            (TableColumn("c_key", BIGINT, False), TableColumn("c_segment", VARCHAR)),
            ("c_key",),
            encoding=Encoding.TEXT,
        ),
        BaseTable(
            "orders",
            (
                TableColumn("o_key", BIGINT, False),
                TableColumn("o_customer", BIGINT),
                TableColumn("o_date", DATE),
                TableColumn("o_priority", VARCHAR),
            ),
            ("o_key",),
        ),
        BaseTable(
            "lineitem",
            (
                TableColumn("l_order", BIGINT, False),
                TableColumn("l_number", INTEGER, False),
                TableColumn("l_price", decimal(12, 2)),
                TableColumn("l_discount", decimal(4, 2)),
                TableColumn("l_weight", DOUBLE),
                TableColumn("l_flag", VARCHAR),
                TableColumn("l_ship", DATE),
            ),
            ("l_order", "l_number"),
            encoding=Encoding.PHOENIX,
        ),
    )
}

VIEWS = {
    "pricing": (
        "SELECT l_flag, sum(l_price) AS price, sum(l_price * (1 - l_discount)) AS paid, avg(l_number) AS number, "
        "min(l_ship) AS first_ship, max(l_price) AS top, count(*) AS lines FROM lineitem "
        "WHERE l_ship <= DATE '1998-09-02' GROUP BY l_flag"
    ),
    "unshipped": (
        "SELECT l_order, o_date, o_priority, sum(l_price * (1 - l_discount)) AS revenue, sum(l_weight) AS weight "
        "FROM customer, orders, lineitem WHERE c_segment = 'building' AND c_key = o_customer AND l_order = o_key "
        "AND o_date < DATE '1995-03-15' AND l_ship > DATE '1995-03-15' GROUP BY l_order, o_date, o_priority"
    ),
    "forecast": (
        "SELECT sum(l_price * l_discount) AS revenue, count(l_flag) AS flagged FROM lineitem "
        "WHERE l_discount BETWEEN 0.02 AND 0.07 AND l_price < 800"
    ),
    "ordered": (
        "SELECT o_key, l_number, c_key, l_price - l_discount AS net FROM orders, lineitem, customer "
        "WHERE o_key = l_order AND o_customer = c_key AND o_priority <> 'low'"
    ),
    # one row that every member has: once beside every group, once as the bound that the groups are compared with
    "leading": (
        "SELECT l_flag, sum(l_price) AS price, (SELECT count(*) FROM orders) AS orders FROM lineitem GROUP BY l_flag "
        "HAVING sum(l_price) > (SELECT sum(l_price) * 0.2 FROM lineitem)"
    ),
}

#: The rows that a view must hold, given its name, its SQL and the tables.
Answer = Callable[[str, str, Mapping[str, pa.Table]], pa.Table]


@dataclass(frozen=True, eq=False)
class Workload:
    """What a history is made of: tables, views, and how rows come to be.

    `writes`: the table of each write is one of these. `value`: a value for a column. `answers`: independent ones, each
    asked in turn. `share`: how likely a view is there at the beginning. `loaded`: rows that are there then.
    """

    tables: Mapping[str, BaseTable]
    views: Mapping[str, str]
    writes: Sequence[str]
    value: Callable[[Random, TableColumn], Any]
    answers: Sequence[Answer]
    share: float = 0.6
    loaded: Callable[[Random], Mapping[str, pa.Table]] = lambda random: {}


_DAYS = range(8760, 10600, 40)
#: Keys of the tables of `SMALL` are so many at most.
_KEYS = 12


class Writer:
    """Random mutations of the tables; the same `random` gives the same ones."""

    def __init__(self, random: Random, workload: Workload) -> None:
        self._random, self._workload = random, workload
        self._encoders = {name: RowEncoder(table) for name, table in workload.tables.items()}

    def load(self, ts: int) -> Iterator[tuple[str, list[Mutation]]]:
        """The rows that are there at the beginning."""
        for name, rows in self._workload.loaded(self._random).items():
            yield name, self._encoders[name].puts(rows, ts)

    def write(self, now: int) -> tuple[str, list[Mutation]]:
        """The mutations of one call. `now` is above every stamp used before; most writes use it."""
        random = self._random
        name = random.choice(self._workload.writes)
        # A new and an old stamp of one row meet here; so do equal ones, and stamps from the future.
        stamp = now if random.random() < 0.85 else max(2, now + random.randint(-400, 40))
        kind = random.choices(("whole", "partial", "delete", "column", "version", "raw"), (50, 20, 15, 5, 5, 5))[0]
        count = 1 if random.random() < 0.7 else random.randint(2, 6)
        return name, [m for _ in range(count) for m in self._one(self._workload.tables[name], kind, stamp)]

    def _one(self, table: BaseTable, kind: str, ts: int) -> Iterator[Mutation]:
        random, encoder = self._random, self._encoders[table.name]
        row = {c.name: self._workload.value(random, c) for c in table.columns}
        if kind == "whole":
            yield from encoder.puts(_one_row(table, row), ts)
        elif kind == "partial":
            chosen = {*table.key, random.choice(table.value_columns).name}
            yield from encoder.puts(_one_row(table, {n: v for n, v in row.items() if n in chosen}), ts, whole=False)
        elif kind == "delete":
            yield from encoder.deletes(_one_row(table, {n: row[n] for n in table.key}), ts)
        else:
            key = encode_keys([c.type for c in table.key_columns], [_array(c, row[c.name]) for c in table.key_columns])
            column = table.qualifier(random.choice(table.value_columns).name)
            if kind == "raw":
                column = random.choice((column, table.qualifier("undeclared")))
                yield Mutation(key[0], (Cell(column, ts, PUT, random.choice((b"", b"\x80?", b"7"))),))
            else:
                yield Mutation(key[0], (Cell(column, ts, DELETE_COLUMN if kind == "column" else DELETE_VERSION),))


def _value(random: Random, column: TableColumn) -> Any:
    if column.nullable and random.random() < 0.1:
        return None
    match column.name:
        case "c_key" | "o_customer":
            return random.randint(1, max(2, _KEYS // 3))
        case "o_key" | "l_order":
            return random.randint(-2, _KEYS)
        case "l_number":
            return random.randint(1, 4)
        case "c_segment":
            return random.choice(("building", "machinery"))
        case "o_priority":
            return random.choice(("low", "high", "höchste"))
        case "l_flag":
            return random.choice(("", "A", "N", "R"))
        case "l_weight":
            return random.choice((0.1, 0.2, 3.5, 1e6))
        case "l_discount":
            return f"0.{random.randint(0, 10):02d}"
        case "l_price":
            return f"{random.randint(-500, 1500)}.{random.randint(0, 99):02d}"
    return random.choice(_DAYS)


def _array(column: TableColumn, value: Any) -> pa.Array:
    if column.type == DATE:
        return pa.array([value], pa.int32()).cast(pa.date32())
    if isinstance(value, str) and column.type != VARCHAR:
        return pa.array([value]).cast(column.type.arrow)
    return pa.array([value], column.type.arrow)


def _one_row(table: BaseTable, row: dict[str, Any]) -> pa.Table:
    return pa.table({name: _array(table.by_name[name], value) for name, value in row.items()})


def _answer(oracle: Oracle) -> Answer:
    return lambda view, sql, tables: oracle.evaluate(sql, tables)


SMALL = Workload(
    TABLES,
    VIEWS,
    ("customer", "orders", "orders", "lineitem", "lineitem", "lineitem", "lineitem"),
    _value,
    (_answer(DataFusionOracle()), _answer(DuckOracle())),
)
