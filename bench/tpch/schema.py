"""The eight tables of TPC-H, stated once: as `BaseTable`s, from which `ddl` renders the CREATE TABLE text.

Columns stand in the standard's order and, as there, none may be NULL. `relaxed` gives the same tables with
nullable value columns, for histories that are to exercise SQL's rules for NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from vms.model.table import BaseTable, TableColumn
from vms.model.types import BIGINT, DATE, INTEGER, VARCHAR, SqlType, decimal

_MONEY = decimal(15, 2)


def _table(name: str, key: tuple[str, ...], columns: Mapping[str, SqlType]) -> BaseTable:
    return BaseTable(name, tuple(TableColumn(c, t, nullable=False) for c, t in columns.items()), key)


_ALL = (
    _table("region", ("r_regionkey",), {"r_regionkey": BIGINT, "r_name": VARCHAR, "r_comment": VARCHAR}),
    _table(
        "nation",
        ("n_nationkey",),
        {"n_nationkey": BIGINT, "n_name": VARCHAR, "n_regionkey": BIGINT, "n_comment": VARCHAR},
    ),
    _table(
        "supplier",
        ("s_suppkey",),
        {
            "s_suppkey": BIGINT,
            "s_name": VARCHAR,
            "s_address": VARCHAR,
            "s_nationkey": BIGINT,
            "s_phone": VARCHAR,
            "s_acctbal": _MONEY,
            "s_comment": VARCHAR,
        },
    ),
    _table(
        "customer",
        ("c_custkey",),
        {
            "c_custkey": BIGINT,
            "c_name": VARCHAR,
            "c_address": VARCHAR,
            "c_nationkey": BIGINT,
            "c_phone": VARCHAR,
            "c_acctbal": _MONEY,
            "c_mktsegment": VARCHAR,
            "c_comment": VARCHAR,
        },
    ),
    _table(
        "part",
        ("p_partkey",),
        {
            "p_partkey": BIGINT,
            "p_name": VARCHAR,
            "p_mfgr": VARCHAR,
            "p_brand": VARCHAR,
            "p_type": VARCHAR,
            "p_size": INTEGER,
            "p_container": VARCHAR,
            "p_retailprice": _MONEY,
            "p_comment": VARCHAR,
        },
    ),
    _table(
        "partsupp",
        ("ps_partkey", "ps_suppkey"),
        {
            "ps_partkey": BIGINT,
            "ps_suppkey": BIGINT,
            "ps_availqty": INTEGER,
            "ps_supplycost": _MONEY,
            "ps_comment": VARCHAR,
        },
    ),
    _table(
        "orders",
        ("o_orderkey",),
        {
            "o_orderkey": BIGINT,
            "o_custkey": BIGINT,
            "o_orderstatus": VARCHAR,
            "o_totalprice": _MONEY,
            "o_orderdate": DATE,
            "o_orderpriority": VARCHAR,
            "o_clerk": VARCHAR,
            "o_shippriority": INTEGER,
            "o_comment": VARCHAR,
        },
    ),
    _table(
        "lineitem",
        ("l_orderkey", "l_linenumber"),
        {
            "l_orderkey": BIGINT,
            "l_partkey": BIGINT,
            "l_suppkey": BIGINT,
            "l_linenumber": INTEGER,
            "l_quantity": _MONEY,
            "l_extendedprice": _MONEY,
            "l_discount": _MONEY,
            "l_tax": _MONEY,
            "l_returnflag": VARCHAR,
            "l_linestatus": VARCHAR,
            "l_shipdate": DATE,
            "l_commitdate": DATE,
            "l_receiptdate": DATE,
            "l_shipinstruct": VARCHAR,
            "l_shipmode": VARCHAR,
            "l_comment": VARCHAR,
        },
    ),
)

#: Every table by name, small ones first.
TABLES: dict[str, BaseTable] = {t.name: t for t in _ALL}


def relaxed(tables: Mapping[str, BaseTable] = TABLES) -> dict[str, BaseTable]:
    """The same tables with every value column nullable."""
    return {
        name: replace(t, columns=tuple(replace(c, nullable=c.name not in t.key) for c in t.columns))
        for name, t in tables.items()
    }


def ddl(tables: Iterable[BaseTable] = _ALL) -> str:
    """CREATE TABLE statements, one for each table, each ended by a semicolon."""
    return "\n".join(_create(t) for t in tables)


def _create(table: BaseTable) -> str:
    lines = [f"    {c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
    lines.append(f"    PRIMARY KEY ({', '.join(table.key)})")
    return f"CREATE TABLE {table.name} (\n" + ",\n".join(lines) + "\n);"


def arrow_schema(table: BaseTable) -> pa.Schema:
    """The Arrow schema of the table's rows."""
    return pa.schema([pa.field(c.name, c.type.arrow, c.nullable) for c in table.columns])
