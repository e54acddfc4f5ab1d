"""Tables that the tests of the plan layer are written over."""

from __future__ import annotations

from vms.model.table import HIDDEN_KEY, BaseTable, TableColumn
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType, decimal

MONEY = decimal(15, 2)


def table(name: str, key: str, rows: int | None = None, **columns: SqlType | tuple[SqlType]) -> BaseTable:
    """A table; a type in a tuple is NOT NULL."""
    declared = tuple(
        TableColumn(n, t[0] if isinstance(t, tuple) else t, not isinstance(t, tuple)) for n, t in columns.items()
    )
    return BaseTable(name, declared, tuple(key.split()), rows_estimate=rows, hidden_key=key == HIDDEN_KEY)


TABLES = {
    t.name: t
    for t in (
        table(
            "lineitem",
            "l_orderkey l_linenumber",
            l_orderkey=(BIGINT,),
            l_linenumber=(INTEGER,),
            l_suppkey=(BIGINT,),
            l_quantity=(MONEY,),
            l_extendedprice=(MONEY,),
            l_discount=(MONEY,),
            l_tax=(MONEY,),
            l_returnflag=(VARCHAR,),
            l_linestatus=(VARCHAR,),
            l_shipdate=(DATE,),
        ),
        table(
            "orders",
            "o_orderkey",
            o_orderkey=(BIGINT,),
            o_custkey=(BIGINT,),
            o_orderdate=(DATE,),
            o_shippriority=(INTEGER,),
        ),
        table("customer", "c_custkey", c_custkey=(BIGINT,), c_mktsegment=(VARCHAR,), c_nationkey=(BIGINT,)),
        table("nation", "n_nationkey", n_nationkey=(BIGINT,), n_name=(VARCHAR,)),
        table(
            "t",
            "k",
            k=(BIGINT,),
            i=INTEGER,
            b=BIGINT,
            d=decimal(10, 2),
            x=DOUBLE,
            s=VARCHAR,
            dt=DATE,
            ts=TIMESTAMP,
            bo=BOOLEAN,
        ),
        table("pair", "p q", p=(BIGINT,), q=(BIGINT,), v=INTEGER),
        table("log", HIDDEN_KEY, **{HIDDEN_KEY: (VARCHAR,), "at": TIMESTAMP, "n": BIGINT}),
    )
}

Q1 = """
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
       sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
       avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc,
       count(*) AS count_order
FROM lineitem
WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus
"""

Q3 = """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
"""

Q6 = """
SELECT sum(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR
  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24
"""
