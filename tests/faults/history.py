"""A seeded history of small steps over two tables, for processes that are killed while they take them.

Step i is a function of (seed, i) alone and may be taken again: a process that does not know whether a step was
taken before it died takes it once more, and the outcome is the same. So the tables after n steps are known
exactly, whatever happened on the way: `expected_tables` takes the same steps in a store in memory.
"""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

import vms
from vms.model.changes import DELETE_COLUMN, DELETE_ROW, PUT
from vms.model.rowkey import encode_keys
from vms.model.table import BaseTable, TableColumn
from vms.model.types import BIGINT, DATE, INTEGER, VARCHAR
from vms.model.types import decimal as decimal_type
from vms.store.base import Cell, Family, Mutation
from vms.stream.decode import read_rows
from vms.stream.encode import RowEncoder
from vms.testing.memory_store import MemoryStore

ORDERS = BaseTable(
    "orders",
    (
        TableColumn("o", BIGINT, nullable=False),
        TableColumn("customer", VARCHAR),
        TableColumn("day", DATE),
        TableColumn("note", VARCHAR),
    ),
    ("o",),
)
ITEMS = BaseTable(
    "items",
    (
        TableColumn("o", BIGINT, nullable=False),
        TableColumn("line", INTEGER, nullable=False),
        TableColumn("flag", VARCHAR),
        TableColumn("price", decimal_type(15, 2)),
        TableColumn("discount", decimal_type(15, 2)),
    ),
    ("o", "line"),
)
TABLES = {t.name: t for t in (ORDERS, ITEMS)}

#: Like TPC-H 1, 3 and 6: groups with every aggregate, a join under groups, a filtered grand total.
VIEWS = {
    "q1": """SELECT flag, count(*) AS n, count(price) AS priced, sum(price) AS total, avg(price) AS mean,
                    min(discount) AS least, max(discount) AS most
             FROM items GROUP BY flag""",
    "q3": """SELECT orders.o, customer, day, sum(price * (1 - discount)) AS revenue
             FROM orders JOIN items ON orders.o = items.o
             WHERE day < DATE '2024-06-01' GROUP BY orders.o, customer, day""",
    "q6": "SELECT sum(price * discount) AS saved FROM items WHERE discount BETWEEN 0.02 AND 0.08 AND price < 60",
}
#: Comes and goes while the history runs. It reads a column that no other view reads, so a table is scanned.
LATE = "SELECT note, count(*) AS n, max(o) AS newest FROM orders GROUP BY note"

_ORDER_KEYS, _LINES = 25, 3
#: Timestamps of the steps below those of every clock: such a write may be hidden by what is there already.
_OLD = 1_000_000
_CLOCK = 1_000_000_000


@dataclass(frozen=True)
class Step:
    """One call of the API. `kind`: put, partial, delete, old (cells with own timestamps), or a definition."""

    kind: str
    table: str = ""
    rows: pa.Table | None = None
    mutations: Sequence[Mutation] = field(default=())
    key: bytes = b""


def step(seed: int, index: int) -> Step:
    """What is done at this place of the history."""
    random_ = random.Random(f"{seed}/{index}")
    at = index % 16
    if at == 5:
        return Step("create view")
    if at == 11:
        return Step("drop view")
    if at == 8:
        return Step("create table")
    if at == 14:
        return Step("drop table")
    table = random_.choice([ORDERS, ITEMS, ITEMS])
    if at == 3:
        return Step("split", table.name, key=_encode(table, [random_.randrange(_ORDER_KEYS), 1]))
    kind = random_.choices(["put", "partial", "delete", "old"], [5, 4, 3, 3])[0]
    if kind == "old":
        return Step(kind, table.name, mutations=_old_cells(table, random_, index))
    count = random_.randint(1, 6)
    keys = random_.sample([(o, line) for o in range(_ORDER_KEYS) for line in range(_LINES)], count)
    if table is ORDERS:
        keys = [(o, 0) for o, _ in dict(keys).items()]
    columns = [c.name for c in table.value_columns]
    if kind == "partial":
        columns = random_.sample(columns, random_.randint(1, len(columns) - 1))
    rows = {"o": [o for o, _ in keys]}
    if table is ITEMS:
        rows["line"] = [line for _, line in keys]
    if kind != "delete":
        rows.update({c: [_value(c, random_) for _ in keys] for c in columns})
    schema = pa.schema([(name, table.by_name[name].type.arrow) for name in rows])
    return Step(kind, table.name, pa.table(rows, schema=schema))


def _value(column: str, random_: random.Random) -> object:
    if random_.random() < 0.1:
        return None
    match column:
        case "customer" | "note":
            return f"{column} {random_.randrange(6)}"
        case "day":
            return datetime.date(2024, random_.randint(1, 12), random_.randint(1, 28))
        case "flag":
            return random_.choice("ANR")
        case "price":
            return decimal.Decimal(random_.randrange(10_000)) / 100
    return decimal.Decimal(random_.randrange(11)) / 100


def _encode(table: BaseTable, key: Sequence[int]) -> bytes:
    types = [c.type for c in table.key_columns]
    arrays = [pa.array([part], t.arrow) for part, t in zip(key, types)]
    return encode_keys(types, arrays)[0]


def _old_cells(table: BaseTable, random_: random.Random, index: int) -> list[Mutation]:
    """Cells with a timestamp from long ago, put or deleted, in one row."""
    row = _encode(table, [random_.randrange(_ORDER_KEYS), random_.randrange(_LINES)])
    ts = _OLD + random_.randrange(20)
    source = step_row(table, random_)
    cells = []
    for cell in source.cells:
        kind = random_.choice([PUT, PUT, DELETE_COLUMN])
        cells.append(Cell(cell.column, ts, kind, cell.value if kind == PUT else b""))
    if random_.random() < 0.2:
        cells = [Cell(table.qualifier(""), ts, DELETE_ROW)]
    return [Mutation(row, tuple(cells))]


def step_row(table: BaseTable, random_: random.Random) -> Mutation:
    """A put of some columns, as the encoder writes it."""
    columns = random_.sample([c.name for c in table.value_columns], 2)
    rows = {k: [0] for k in table.key} | {c: [_value(c, random_)] for c in columns}
    schema = pa.schema([(name, table.by_name[name].type.arrow) for name in rows])
    return RowEncoder(table).puts(pa.table(rows, schema=schema), _OLD, whole=False)[0]


def take(db: vms.Database, done: Step) -> None:
    """Take the step; whether it was taken before does not matter."""
    match done.kind:
        case "put":
            db.put(done.table, done.rows)
        case "partial":
            db.put(done.table, done.rows, whole=False)
        case "delete":
            db.delete(done.table, done.rows)
        case "old":
            db.store.mutate(done.table, done.mutations)
        case "split":
            if done.key not in {r.start for r in db.store.regions(done.table)}:
                db.store.split(done.table, done.key)
        case "create view":
            if "late" not in db.catalog.views:
                db.create_view("late", LATE)
        case "drop view":
            if "late" in db.catalog.views:
                db.drop_view("late")
        case "create table":
            if "spare" not in db.catalog.tables:
                db.sql("CREATE TABLE spare (k BIGINT, v VARCHAR, PRIMARY KEY (k))")
            db.put("spare", pa.table({"k": [1], "v": ["x"]}))
        case "drop table":
            if "spare" in db.catalog.tables:
                db.drop_table("spare")


def define(db: vms.Database) -> None:
    """The tables and the views that are there from the first."""
    for table in TABLES.values():
        if table.name not in db.catalog.tables:
            db.create_table(table)
    for name, sql in VIEWS.items():
        if name not in db.catalog.views:
            db.create_view(name, sql)


def expected_tables(seed: int, steps: int) -> Mapping[str, pa.Table]:
    """The rows of both tables after the first `steps` steps."""
    store = MemoryStore()
    for table in TABLES.values():
        store.create_table(table.name, {table.family: Family()})
    for index in range(steps):
        done, ts = step(seed, index), _CLOCK + 2 * index
        if done.table and done.kind != "split":
            encoder = RowEncoder(TABLES[done.table])
            match done.kind:
                case "put" | "partial":
                    mutations = encoder.puts(done.rows, ts, whole=done.kind == "put")
                case "delete":
                    mutations = encoder.deletes(done.rows, ts)
                case _:
                    mutations = list(done.mutations)
            store.mutate(done.table, mutations)
    found = {}
    for name, table in TABLES.items():
        rows, _ = read_rows(table, store.scan(name))
        found[name] = pa.table(rows).select([c.name for c in table.columns])
    return found
