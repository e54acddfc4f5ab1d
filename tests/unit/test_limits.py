"""The hand-written limits of the engine benchmark: as exact as what they are compared with."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bench.micro.limits import LIMITS
from bench.micro.rowtable import NONE, RowTable, add, find_or_add, place_of, remove, row_at
from bench.tpch import data
from bench.tpch.changes import ChangeStream
from bench.tpch.encoded import EncodedStream
from bench.tpch.expected import expected
from vms.model.changes import DELETE_ROW
from vms.model.text import TextPool
from vms.testing.compare import assert_same_rows

COLUMNS = {
    "lineitem": (
        "l_shipdate", "l_linestatus", "l_returnflag", "l_tax", "l_discount", "l_extendedprice", "l_quantity",
        "l_commitdate", "l_receiptdate", "l_shipmode", "l_suppkey",
    ),
    "orders": ("o_shippriority", "o_orderdate", "o_custkey", "o_orderpriority"),
    "customer": ("c_mktsegment", "c_nationkey"),
    "supplier": ("s_nationkey",),
    "nation": ("n_regionkey", "n_name"),
    "region": ("r_name",),
}  # fmt: skip


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return data.tables(0.001, names=list(COLUMNS))


def stream_of(tables: dict[str, pa.Table], seed: int, delete_share: float = 0.2) -> ChangeStream:
    """Inserts, overwrites, deletes and returning keys, often of the same rows."""
    return ChangeStream(tables, seed, delete_share, 0.2, 0.0, 0.1, zipf=0.7)


@pytest.mark.parametrize("query", LIMITS)
@pytest.mark.parametrize("batch", [1, 64, 100_000])
def test_result_equals_duckdb(tables: dict[str, pa.Table], query: str, batch: int) -> None:
    stream, pool = stream_of(tables, 5), TextPool()
    limit = LIMITS[query](COLUMNS, pool)
    for changes in EncodedStream(stream, COLUMNS, pool).batches(batch):
        limit.step(changes)
    assert_same_rows(limit.result(), expected(query, stream.final_tables()))


@pytest.mark.parametrize("query", LIMITS)
def test_what_is_emitted_sums_up_to_the_result(tables: dict[str, pa.Table], query: str) -> None:
    """A removed row was shown before, a shown one is new or differs, and the rows left are the view's."""
    stream, pool = stream_of(tables, 6), TextPool()
    limit = LIMITS[query](COLUMNS, pool)
    view: dict[tuple[int, ...], tuple[int, ...]] = {}
    removals = 0
    for changes in EncodedStream(stream, COLUMNS, pool).batches(25):
        emitted = limit.step(changes)
        keys = [tuple(k) for k in emitted.keys.tolist()]
        assert len(set(keys)) == len(keys)
        for key, values, removed in zip(keys, emitted.values.tolist(), emitted.removed.tolist()):
            if removed:
                del view[key]
                removals += 1
            else:
                view[key] = tuple(values)
    final = limit.result()
    assert len(view) == final.num_rows
    if query == "q03":
        assert removals > 0
        shown = {(key[0], values[0]) for key, values in view.items()}
        revenue = [int(value.scaleb(4)) for value in final["revenue"].to_pylist()]
        assert shown == set(zip(final["l_orderkey"].to_pylist(), revenue))
    elif query == "q01":
        assert sorted(values[-1] for values in view.values()) == sorted(final["count_order"].to_pylist())
    elif query == "q05":
        revenue = [int(value.scaleb(4)) for value in final["revenue"].to_pylist()]
        assert sorted(values[0] for values in view.values()) == sorted(revenue)
    elif query == "q12":
        assert sorted(view.values()) == sorted(zip(*(final[f"{p}_line_count"].to_pylist() for p in ("high", "low"))))
    else:
        assert view[()][0] == int(final["revenue"][0].as_py().scaleb(4))


@pytest.mark.parametrize("query", LIMITS)
def test_nothing_is_left_when_every_row_is_deleted(tables: dict[str, pa.Table], query: str) -> None:
    few = {name: table.slice(0, 300) for name, table in tables.items()}
    pool = TextPool()
    limit = LIMITS[query](COLUMNS, pool)
    stream = ChangeStream(few, 1, 0.0, 0.0, 0.0, 0.0)
    for changes in EncodedStream(stream, COLUMNS, pool).batches(50):
        limit.step(changes)
        limit.step({n: replace(c, kinds=np.full_like(c.kinds, DELETE_ROW)) for n, c in changes.items()})
    empty = {name: table.slice(0, 0) for name, table in few.items()}
    assert_same_rows(limit.result(), expected(query, empty))


@pytest.mark.parametrize("seed", range(5))
def test_row_table_against_a_dictionary(seed: int) -> None:
    """Few keys, so that removals leave probing chains behind and row numbers are given out again."""
    rng = random.Random(seed)
    table, known = RowTable(2, places=16), {}
    for _ in range(3000):
        key = rng.randrange(200)
        table.make_room()
        place = place_of(table.parts, key)
        number = row_at(table.parts, place)
        assert (number != NONE) == (key in known)
        if number == NONE:
            number = add(table.parts, place, key)
        elif rng.random() < 0.5:
            remove(table.parts, place)
            del known[key]
            continue
        known[key] = table.rows[number, 1] = rng.randrange(1000)
        assert table.rows[find_or_add(table.parts, key), 1] == known[key]
    assert len(table) == len(known)
    assert {int(k): int(v) for k, v in table.live()} == known
