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


@pytest.mark.parametrize("sql", ONE_VALUE)
def test_a_subquery_that_gives_one_value(sql: str) -> None:
    plan = plan_view("v", sql, TABLES).plan
    for seed in range(3):
        check({"v": sql}, plan, Random(seed))
