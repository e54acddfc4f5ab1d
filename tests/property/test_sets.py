"""DISTINCT and set operations: random views over random histories, equal to both oracles after every step."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_sets import set_views
from random_views import TABLES, View, histories, slot_maps
from view_runs import assert_views_equal_both_oracles

from vms.errors import UnsupportedSql
from vms.maintenance.engine import Engine
from vms.maintenance.virtual_store import ALL_SLOTS
from vms.plan.frontend import plan_view
from vms.plan.plan import MaintenancePlan
from vms.testing.plan_run import MEMBERS, Rows, row_changes


@settings(deadline=None, max_examples=100)
@given(
    st.lists(set_views(), min_size=2, max_size=2),
    histories(),
    st.lists(slot_maps(len(MEMBERS)), min_size=4, max_size=4),
)
def test_views_equal_both_oracles_on_one_member_and_on_three(definitions: list[View], history, slots):
    assert_views_equal_both_oracles(definitions, history, slots)


NULL_SAFE = [
    "SELECT a.k, b.s FROM t a JOIN u b ON (a.s IS NOT DISTINCT FROM b.s) AND (a.i IS NOT DISTINCT FROM b.q)",
    "SELECT a.k, b.p, b.q FROM t a LEFT JOIN u b ON a.x IS NOT DISTINCT FROM b.x",
    "SELECT b, s FROM events e WHERE EXISTS (SELECT 1 FROM t WHERE t.s IS NOT DISTINCT FROM e.s)",
    "SELECT i FROM t EXCEPT SELECT x FROM u",
    "SELECT i, bo FROM t INTERSECT SELECT x, x > 0 FROM u",
]
#: A join whose copies of a row count, below a set operation that counts.
COUNTED = [
    "SELECT p, s FROM u EXCEPT ALL SELECT u.p, u.s FROM u JOIN events ON u.q = events.b",
    "SELECT s FROM t INTERSECT ALL SELECT u.s FROM u JOIN events ON u.q = events.b WHERE u.i < 2",
]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from([*NULL_SAFE, *COUNTED]), min_size=2, max_size=2),
    histories(),
    st.lists(slot_maps(len(MEMBERS)), min_size=4, max_size=4),
)
def test_nulls_are_equal_and_copies_count_where_the_text_says_so(texts, history, slots):
    assert_views_equal_both_oracles([View(sql, sql) for sql in texts], history, slots)


def counted(table: pa.Table) -> Counter:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@settings(deadline=None, max_examples=60)
@given(histories(), st.sampled_from(["", " ALL"]))
def test_intersect_and_except_are_those_of_multisets(history, repeats):
    """Python's own: the smaller of two counts, and what is left of one count."""
    texts = {o: f"SELECT b, s FROM events {o}{repeats} SELECT i, s FROM t" for o in ("INTERSECT", "EXCEPT")}
    plan = MaintenancePlan.merge(plan_view(name, sql, TABLES).plan for name, sql in texts.items())
    engine, base = Engine(plan, TABLES), {name: Rows(table) for name, table in TABLES.items()}
    for step in history:
        changes = {name: base[name].apply(events) for name, events in step.items()}
        engine.step(
            {
                t: row_changes(TABLES[t], engine.source_columns(t), changes[t], engine.pool, ALL_SLOTS)
                for t in plan.sources
            }
        )
        left = counted(base["events"].arrow().select(["b", "s"]))
        right = counted(base["t"].arrow().select(["i", "s"]))
        expected = {"INTERSECT": left & right, "EXCEPT": left - right}
        if not repeats:
            expected = {"INTERSECT": Counter(left.keys() & right.keys()), "EXCEPT": Counter(left.keys() - right.keys())}
        assert {name: counted(engine.contents(name)) for name in texts} == expected


def test_exists_over_all_columns_is_no_set_operation_of_the_text():
    """The exported plans are the same; only the text tells them apart."""
    exists = "EXISTS (SELECT 1 FROM t WHERE (t.b IS NOT DISTINCT FROM e.b) AND (t.s IS NOT DISTINCT FROM e.s))"
    both = f"SELECT b, s FROM events e WHERE {exists} INTERSECT ALL SELECT b, s FROM t"
    with pytest.raises(UnsupportedSql):
        plan_view("v", both, TABLES)
