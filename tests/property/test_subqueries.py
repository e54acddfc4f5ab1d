"""Subqueries and joins without keys: random histories, on one member and on three, against both oracles."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from vms.maintenance.epoch_run import EpochRun
from vms.maintenance.record import Program
from vms.maintenance.virtual_store import ALL_SLOTS, VirtualStore, read_columns
from vms.model.ring import SLOTS, Ring
from vms.plan.frontend import plan_view
from vms.testing.fuzz import check
from vms.testing.oracle import THREE_VALUES
from vms.testing.plan_run import Event, Rows, ViewTable, row_changes
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
    "SELECT k FROM t JOIN (SELECT max(a) AS m, max(b) AS n FROM u) x ON t.a = x.m AND t.b < x.n",
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

MEMBERS = [
    "SELECT k FROM t WHERE a IN (SELECT a FROM u) OR b = 1",
    "SELECT k FROM t WHERE a NOT IN (SELECT a FROM u)",
    "SELECT k FROM t WHERE k NOT IN (SELECT a FROM u WHERE a IS NOT NULL)",
    "SELECT b, s FROM e WHERE s NOT IN (SELECT s FROM t WHERE a = 1) AND b NOT IN (SELECT a FROM u)",
    "SELECT k FROM t WHERE NOT (a IN (SELECT a FROM u) OR b = 1)",
    "SELECT k FROM t WHERE CASE WHEN a IN (SELECT a FROM u) THEN b = 1 ELSE b = 2 END",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) OR NOT EXISTS (SELECT 1 FROM e WHERE e.b = t.b)",
    "SELECT k FROM t WHERE a > ALL (SELECT a FROM u)",
    "SELECT k FROM t WHERE a = ANY (SELECT a FROM u)",
    "SELECT k FROM t WHERE b < ANY (SELECT b FROM e)",
    "SELECT k FROM t WHERE a <> ALL (SELECT n FROM u WHERE u.b = t.b)",
    # what may not be NOT IN, or compare with the value again, may be IN and NOT EXISTS
    "SELECT k FROM t WHERE a IN (SELECT u.a FROM u WHERE u.a = t.a)",
    "SELECT k FROM t WHERE a IN (SELECT max(u.a) FROM u WHERE u.b = t.b) AND (1) IN (SELECT u.a FROM u)",
    "SELECT k FROM t WHERE NOT EXISTS (SELECT u.a FROM u WHERE u.a = t.a AND u.a = t.a)",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM (SELECT max(a) AS m FROM u) q WHERE q.m = t.a)",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u LEFT JOIN e ON u.b = e.b WHERE u.a = t.a LIMIT 1)",
    "SELECT k FROM t WHERE a IN (SELECT u.a FROM u WHERE u.b > (SELECT min(e.b) FROM e WHERE e.s = u.s)) AND b > 0",
    # DataFusion takes NULL for false here, or does not run them
    f"{THREE_VALUES} SELECT k FROM t WHERE a NOT IN (SELECT a FROM u) OR k = 1",
    f"{THREE_VALUES} SELECT k FROM t WHERE a NOT IN (SELECT a FROM u WHERE u.b = t.b)",
    f"{THREE_VALUES} SELECT k FROM t WHERE a NOT IN (SELECT a FROM u WHERE u.b = t.b) OR k = 1",
    f"{THREE_VALUES} SELECT k FROM t WHERE a + 1 NOT IN (SELECT a FROM u WHERE u.b = t.a)",
    f"{THREE_VALUES} SELECT k FROM t WHERE b NOT IN (SELECT b FROM u WHERE u.s = t.s AND u.n < t.k)",
    f"{THREE_VALUES} SELECT k, a IN (SELECT a FROM u) AS i, s NOT IN (SELECT s FROM e) AS j FROM t",
    f"{THREE_VALUES} SELECT k, EXISTS (SELECT 1 FROM u WHERE a = 1) AS i FROM t",
]
#: u is declared small.
WITHOUT_KEYS = [
    "SELECT t.k, u.p, u.n FROM t CROSS JOIN u",
    "SELECT t.k, u.n FROM u CROSS JOIN t",
    "SELECT t.k, u.n FROM t JOIN u ON t.a < u.a",
    "SELECT e.b, u.n FROM e LEFT JOIN u ON e.b < u.a AND e.s = 'a'",
    "SELECT t.k, u.n FROM u RIGHT JOIN t ON t.a + u.a > 2",
    "SELECT t.k, count(u.n) AS c FROM t LEFT JOIN u ON t.a BETWEEN u.n AND u.a GROUP BY t.k",
    "SELECT x.p, x.n, y.p AS q FROM u x FULL JOIN u y ON x.a < y.a",
    "SELECT x.p, x.n, y.p AS q FROM u x LEFT JOIN u y ON x.a <> y.b",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a <> t.a AND u.b < t.k)",
    "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a + t.a = 3)",
    "SELECT t.k, x.b FROM t CROSS JOIN (SELECT b FROM e ORDER BY b NULLS LAST LIMIT 2) x",
]


@pytest.mark.parametrize("sql", ONE_VALUE + BOUNDS + MEMBERS + WITHOUT_KEYS)
def test_a_subquery_that_gives_one_value(sql: str) -> None:
    plan = plan_view("v", sql, TABLES).plan
    for seed in range(2):
        check({"v": sql}, plan, Random(seed))


def test_a_subquery_of_several_rows_is_a_counted_error_that_heals() -> None:
    plan = plan_view("v", "SELECT k, (SELECT a FROM u WHERE p = 'a') AS m FROM t", TABLES).plan
    store, base = VirtualStore(), {name: Rows(TABLES[name]) for name in plan.sources}
    ring = Ring(1, ("one",), np.zeros(SLOTS, np.int64))

    def after(**events: list[Event]) -> tuple[int, list[tuple[int, int | None]]]:
        """The errors that are counted then, and the view's rows."""
        run = EpochRun(store, Program(1, TABLES, plan) if not store.program.version else store.program, ring, "one")
        columns = {t: read_columns(TABLES[t], plan) for t in plan.sources}
        stamped = {t: base[t].apply(events.get(t, [])) for t in plan.sources}
        run.apply_changes({t: row_changes(TABLES[t], columns[t], s, store.pool, ALL_SLOTS) for t, s in stamped.items()})
        run.advance()
        table.write(run.views["v"], store.pool)
        failed = sum(getattr(operation, "error_count", 0) for operation in store.operations.values())
        return failed, [tuple(row.values()) for row in table.arrow().to_pylist()]

    table = ViewTable(plan.outputs["v"])
    one, two = Event(("a", 0), {"a": 7}), Event(("a", 1), {"a": 8})
    assert after(t=[Event((1,), {"a": 1})], u=[one]) == (0, [(1, 7)])
    assert after(u=[two]) == (1, [])
    assert after(u=[Event(("a", 0), None)]) == (0, [(1, 8)])
