"""Views with DISTINCT, variances, truth values, FILTER, grouping sets and DISTINCT ON, equal to both oracles."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from random_views import TABLES, View, histories, slot_maps
from view_runs import assert_views_equal_both_oracles

from vms.plan.frontend import plan_view
from vms.plan.plan import Join, MaintenancePlan
from vms.testing.plan_run import MEMBERS

VIEWS = [
    "SELECT s, count(DISTINCT b) AS n, sum(DISTINCT i) AS m, count(*) AS rows FROM t GROUP BY s",
    "SELECT count(DISTINCT s) AS n FROM t",
    "SELECT i, count(DISTINCT d) AS n FROM t GROUP BY i",
    "SELECT count(DISTINCT b) AS n, count(DISTINCT s) AS m, sum(DISTINCT d) AS e FROM t",
    "SELECT bo, avg(DISTINCT i) AS n, max(DISTINCT d) AS m, sum(i) AS e FROM t GROUP BY bo",
    "SELECT s, count(DISTINCT b) FILTER (WHERE bo) AS n, count(b) FILTER (WHERE NOT bo) AS m FROM t GROUP BY s",
    "SELECT s, sum(DISTINCT x) AS n, count(DISTINCT x) AS m FROM u WHERE x < 100000 GROUP BY s",
    "SELECT s, var_pop(i) AS a, var_samp(b) AS b, stddev_pop(d) AS c, stddev(i) AS e FROM t GROUP BY s",
    "SELECT var_pop(d) AS a, stddev_samp(d) FILTER (WHERE i > 0) AS b, var_pop(DISTINCT i) AS c FROM t",
    "SELECT s, var_samp(x) AS a, avg(x) AS b FROM u WHERE x < 100000 AND x > -100000 GROUP BY s",
    "SELECT s, bool_and(bo) AS a, bool_or(bo) AS b, bool_or(i > 1) FILTER (WHERE b > 0) AS c FROM t GROUP BY s",
    "SELECT i, a, sum(n) OVER () AS z FROM (SELECT i, bool_and(bo) AS a, sum(b) AS n FROM t GROUP BY i) AS q",
    "SELECT bool_and(DISTINCT bo) AS a, bool_or(bo) AS b FROM t",
    "SELECT s, i, count(*) AS n, grouping(s) AS g, grouping(s, i) AS h FROM t GROUP BY ROLLUP (s, i)",
    "SELECT s, bo, sum(d) AS n, count(DISTINCT b) AS m FROM t GROUP BY CUBE (s, bo)",
    "SELECT s, i, max(d) AS n FROM t GROUP BY GROUPING SETS ((s), (i, s), (s), ())",
    "SELECT s, i, count(*) AS n FROM t GROUP BY ROLLUP (s), i HAVING grouping(s) = 0 OR count(*) > 1",
    "SELECT count(*) AS n, sum(i) AS m FROM t GROUP BY GROUPING SETS ((), ())",
    "SELECT s, i, count(DISTINCT b) AS n, grouping(i, s) AS g FROM t GROUP BY GROUPING SETS ((s, i))",
    "SELECT count(*) AS n, sum(i) AS m FROM t GROUP BY GROUPING SETS (())",
    "SELECT sum(m) AS n FROM (SELECT i, max(d) AS m FROM t GROUP BY i, GROUPING SETS ((s))) q "
    "GROUP BY GROUPING SETS ((i))",
    "SELECT t.s, u.i, sum(t.d) AS n, count(DISTINCT u.q) AS m FROM t JOIN u ON t.i = u.i GROUP BY ROLLUP (t.s, u.i)",
    "SELECT i, sum(n) AS m FROM (SELECT s, i, count(DISTINCT b) AS n FROM t GROUP BY CUBE (s, i)) AS q GROUP BY i",
    # one row of which nothing is read; decimals that DataFusion compares as they are
    "SELECT t.s, t.k FROM t CROSS JOIN (SELECT max(i) AS m FROM u) AS q",
    "SELECT q.s, u.p, u.q FROM (SELECT s, round(CAST(var_pop(i) AS DECIMAL(30, 9)), 3) AS v FROM t GROUP BY s) AS q "
    "JOIN u ON q.v = u.d",
    "SELECT DISTINCT ON (s) s, i, d, k FROM t ORDER BY s, i DESC NULLS LAST, k",
    "SELECT DISTINCT ON (b, s) b, s, d FROM events ORDER BY b, s, d NULLS FIRST",
]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.sampled_from(VIEWS), min_size=3, max_size=3, unique=True),
    histories(),
    st.lists(slot_maps(len(MEMBERS)), min_size=4, max_size=4),
)
def test_views_equal_both_oracles_on_one_member_and_on_three(texts, history, slots):
    assert_views_equal_both_oracles([View(sql, sql) for sql in texts], history, slots)


def joins(plan: MaintenancePlan) -> int:
    return sum(isinstance(n.spec, Join) for n in plan.nodes)


def test_what_is_below_several_groupings_is_kept_once():
    """However different the columns are that the groupings read."""
    rows = "FROM t JOIN u ON t.i = u.i"
    for sql in (
        f"SELECT t.s, u.s AS z, sum(u.d) AS n {rows} GROUP BY ROLLUP (t.s, u.s)",
        f"SELECT t.s, count(DISTINCT u.s) AS n, sum(u.d) AS m, count(DISTINCT t.d) AS l {rows} GROUP BY t.s",
    ):
        assert joins(plan_view("v", sql, TABLES).plan) == 1
