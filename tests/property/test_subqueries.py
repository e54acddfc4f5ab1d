"""Subqueries and joins without keys: random histories, on one member and on three, against both oracles."""

from __future__ import annotations

from random import Random

import pytest

from vms.plan.frontend import plan_view
from vms.testing.fuzz import check
from vms.testing.random_sql import TABLES

ONE_VALUE = [
    "SELECT k, (SELECT max(a) FROM u) AS m FROM t",
    "SELECT k, a + (SELECT max(a) FROM u) * 2 AS m FROM t "
    "WHERE b > (SELECT min(b) FROM u) AND a < (SELECT max(a) FROM u) + 1",
    "SELECT k FROM t WHERE a = (SELECT max(a) FROM u)",
    "SELECT k FROM t WHERE (SELECT max(a) FROM u) > 2",
    "SELECT k FROM t WHERE a > 1 OR b = (SELECT max(b) FROM e)",
    "SELECT k FROM t WHERE b BETWEEN (SELECT min(b) FROM e) AND (SELECT max(a) FROM u)",
    "SELECT t.k, m FROM t CROSS JOIN (SELECT sum(a) AS m FROM u) x WHERE t.a > m",
    "SELECT m, t.k FROM (SELECT count(*) AS m FROM u) x CROSS JOIN t",
    "SELECT x.m, y.n FROM (SELECT count(*) AS m FROM u) x CROSS JOIN (SELECT sum(b) AS n FROM e) y",
    "SELECT (SELECT max(a) FROM u) AS x, (SELECT min(a) FROM t) AS y",
    "SELECT a, count(*) AS n FROM t GROUP BY a HAVING count(*) > (SELECT count(*) FROM u) - 4 "
    "OR a = (SELECT max(a) FROM u)",
    "SELECT sum(a + (SELECT max(a) FROM u)) AS x FROM t",
    "SELECT t.k, u.n FROM t LEFT JOIN u ON t.a = u.a AND t.b > (SELECT min(b) FROM u)",
    "SELECT k FROM t WHERE a > (SELECT max(a) FROM u WHERE u.b > (SELECT min(b) FROM e))",
    "SELECT s, b FROM e WHERE d > (SELECT min(d) FROM e) UNION ALL SELECT p, a FROM u WHERE a < (SELECT max(n) FROM u)",
    # no row is a NULL
    "SELECT k, (SELECT a FROM u WHERE p = 'a' AND n = 0) AS m FROM t",
    "SELECT k FROM t WHERE a = (SELECT a FROM u ORDER BY a NULLS FIRST, p, n LIMIT 1)",
    "SELECT k, (SELECT max(a) FROM u HAVING max(a) > 2) AS m FROM t",
]

BOUNDS = [
    # of all rows, of each key; every comparison, both ways round, and every type of value
    "SELECT k FROM t WHERE d > (SELECT min(d) FROM e)",
    "SELECT k FROM t WHERE (SELECT max(d) FROM e) >= d",
    "SELECT k FROM t WHERE dt < (SELECT max(dt) FROM t)",
    "SELECT k FROM t WHERE NOT b <= (SELECT sum(a) FROM u)",
    "SELECT b, s FROM e WHERE x < (SELECT avg(x) FROM e)",
    "SELECT k FROM t WHERE s > (SELECT min(p) FROM u)",
    "SELECT k, a FROM t WHERE a < (SELECT max(u.n) FROM u WHERE u.a = t.a)",
    "SELECT k, a FROM t WHERE b + 1 >= (SELECT sum(u.b) FROM u WHERE u.a = t.a AND u.s = t.s)",
    "SELECT b, s FROM e WHERE CAST(b AS DOUBLE) <= (SELECT avg(CAST(y.b AS DOUBLE)) FROM e y WHERE y.s = e.s)",
    "SELECT k FROM t JOIN (SELECT a, sum(b) AS total FROM u GROUP BY a) x ON t.a = x.a WHERE t.b > x.total",
    "SELECT k, x.total FROM t JOIN (SELECT a, sum(b) AS total FROM u GROUP BY a) x ON t.a = x.a WHERE t.b > x.total",
    "SELECT d, count(*) AS n FROM t WHERE d <= (SELECT max(u.d) FROM u WHERE u.s = t.s) GROUP BY d",
    # EXISTS with a comparison asks for the highest or the lowest
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a > t.a)",
    "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a <= t.a)",
    "SELECT b, s FROM e WHERE EXISTS (SELECT 1 FROM u WHERE u.s = e.s AND u.b < e.b)",
    "SELECT b, s FROM e WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.s = e.s AND e.d >= u.d)",
    "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.s = t.s AND t.s > e.s)",
    # any row at all
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE a = 2)",
    "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE a = 2)",
]


@pytest.mark.parametrize("sql", ONE_VALUE + BOUNDS)
def test_a_subquery_that_gives_one_value(sql: str) -> None:
    plan = plan_view("v", sql, TABLES).plan
    for seed in range(3):
        check({"v": sql}, plan, Random(seed))
