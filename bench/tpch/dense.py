"""Small TPC-H tables in which rows meet: few keys, and few values, among them those that the queries ask for.

At scale factor 0.001 most queries find nothing: no part is green, of size 15 and sold by a German. Here the queries
stay as they are and the rows are made for them: every column has a handful of values, so that each condition holds for
some rows and not for others, also the late ones (a sum above 300, a share of a total, the greatest revenue).
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from bench.tpch.schema import TABLES, arrow_schema
from vms.model.table import BaseTable, TableColumn

#: Rows of each table where nothing else is said. Their ratio is what makes the queries find something.
SIZES = {
    "region": 8, "nation": 9, "supplier": 20, "customer": 50, "part": 24, "partsupp": 300,
    "orders": 220, "lineitem": 1000
}  # fmt: skip
#: The table whose key a column holds, by the end of its name.
_KEYS = {
    "regionkey": "region", "nationkey": "nation", "suppkey": "supplier", "custkey": "customer", "partkey": "part",
    "orderkey": "orders",
}  # fmt: skip
#: Columns that take their values in turn: few rows, of which every query names one.
_IN_TURN = ("r_name", "n_name", "n_regionkey")
#: How many of the keys are named by these columns: customers that never order, nations in which nobody lives.
_NAMED = {"o_custkey": 2 / 3, "s_nationkey": 5 / 9, "c_nationkey": 5 / 9}


def _days(first: str, last: str, step: int) -> tuple[datetime.date, ...]:
    start, stop = datetime.date.fromisoformat(first), datetime.date.fromisoformat(last)
    return tuple(start + datetime.timedelta(days=d) for d in range(0, (stop - start).days + 1, step))


def _money(*amounts: str) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, amounts))


_PHONES = tuple(f"{code}-555-{n:04d}" for code in (13, 31, 23, 29, 18, 44) for n in range(3))
_BALANCES = _money("-120.50", "0.00", "10.00", "250.00", "251.01", "990.90", "4000.00")
_WORDS = ("", "carefully final", "höchst eilig")
_VALUES: dict[str, tuple[Any, ...]] = {
    "r_name": ("EUROPE", "AMERICA", "ASIA", "MIDDLE EAST"),
    "n_name": ("SAUDI ARABIA", "GERMANY", "CANADA", "FRANCE", "BRAZIL", "INDIA"),
    "s_name": tuple(f"Supplier#{i}" for i in range(8)),
    "s_address": ("Quay 1", "Quay 2", "Mill Lane"),
    "s_phone": _PHONES,
    "s_acctbal": _BALANCES,
    "s_comment": (*_WORDS, "bold", "Customer had slow Complaints"),
    "c_name": tuple(f"Customer#{i}" for i in range(30)),
    "c_address": ("Dock 7", "Dock 8"),
    "c_phone": _PHONES,
    "c_acctbal": _BALANCES,
    "c_mktsegment": ("BUILDING", "BUILDING", "MACHINERY"),
    "p_name": ("green ivory", "forest green", "forest mint", "azure linen"),
    "p_mfgr": ("Manufacturer#1", "Manufacturer#2"),
    "p_brand": ("Brand#12", "Brand#23", "Brand#34", "Brand#45"),
    "p_type": ("ECONOMY ANODIZED STEEL", "PROMO PLATED BRASS", "SMALL PLATED BRASS", "MEDIUM POLISHED TIN"),
    "p_size": (3, 9, 14, 15),
    "p_container": ("SM CASE", "MED BOX", "LG BOX"),
    "p_retailprice": _money("900.00", "1000.50"),
    "ps_availqty": (1, 2, 20, 45, 300, 5000),
    "ps_supplycost": _money("0.01", "1.00", "20.75", "1000.00"),
    "o_orderstatus": ("F", "F", "O", "P"),
    "o_totalprice": _money("100.00", "100.01", "2500.00", "30000.00"),
    "o_orderdate": _days("1993-07-01", "1996-12-31", 29),
    "o_orderpriority": ("1-URGENT", "2-HIGH", "3-MEDIUM", "5-LOW"),
    "o_clerk": ("Clerk#1", "Clerk#2"),
    "o_shippriority": (0, 1),
    "o_comment": (*_WORDS, "special packed requests", "specialrequests"),
    "l_linenumber": tuple(range(1, 8)),
    "l_quantity": _money("1", "3", "10", "11", "20", "25", "90", "120"),
    "l_extendedprice": _money("1.01", "900.00", "1234.56", "45000.99"),
    "l_discount": _money("0.00", "0.04", "0.05", "0.06", "0.07", "0.10"),
    "l_tax": _money("0.00", "0.03", "0.08"),
    "l_returnflag": ("A", "N", "R"),
    "l_linestatus": ("F", "O"),
    "l_shipdate": (*_days("1993-08-01", "1996-12-31", 11), datetime.date(1998, 11, 1)),
    "l_commitdate": _days("1993-12-15", "1997-06-30", 13),
    "l_receiptdate": _days("1993-09-01", "1997-01-31", 17),
    "l_shipinstruct": ("DELIVER IN PERSON", "NONE"),
    "l_shipmode": ("AIR", "AIR REG", "MAIL", "SHIP"),
}  # fmt: skip


def values(column: TableColumn, sizes: Mapping[str, int] = SIZES) -> pa.Array:
    """The values that the column takes, where the tables have so many keys."""
    key = _KEYS.get(column.name.split("_")[1])
    if key is None:
        return pa.array(_VALUES.get(column.name, _WORDS), column.type.arrow)
    share = _NAMED.get(column.name, 1.0)
    return pa.array(range(1, round(share * sizes[key]) + 1), column.type.arrow)


def rows(seed: int, sizes: Mapping[str, int] = SIZES) -> dict[str, pa.Table]:
    """So many rows of each table, as a function of the seed."""
    rng = np.random.default_rng(seed)
    return {name: _rows(TABLES[name], count, sizes, rng) for name, count in sizes.items()}


def _rows(table: BaseTable, count: int, sizes: Mapping[str, int], rng: np.random.Generator) -> pa.Table:
    domains = {c.name: values(c, sizes) for c in table.columns}
    parts = [range(len(domains[k])) for k in table.key]
    chosen = rng.choice(math.prod(map(len, parts)), count, replace=False)
    keys = np.array(list(product(*parts)))[chosen]
    picks = {k: keys[:, i] for i, k in enumerate(table.key)}
    picks |= {c: np.arange(count) % len(domains[c]) for c in _IN_TURN if c in domains}
    schema = arrow_schema(table)
    return pa.table(
        [domains[n].take(pa.array(picks.get(n, rng.integers(0, len(domains[n]), count)))) for n in schema.names],
        schema=schema,
    )


def sizes_for(tables: Iterable[str], total: int) -> dict[str, int]:
    """Sizes in the ratio of `SIZES` at which the rows of `tables` are about `total`, for any seed."""
    factor = total / sum(SIZES[name] for name in tables)
    return {name: max(round(count * factor), count) for name, count in SIZES.items()}
