"""Whole views with an order: random histories, equal to both oracles after every step, on one member and on three."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ordered_views import top_k_views, window_views
from random_views import View, histories, slot_maps
from view_runs import assert_views_equal_both_oracles

SLOT_MAPS = st.lists(slot_maps(3), min_size=4, max_size=4)


@settings(deadline=None, max_examples=150)
@given(top_k_views(), histories(), SLOT_MAPS)
def test_the_first_rows_equal_both_oracles(view, history, slots):
    assert_views_equal_both_oracles([view], history, slots)


@settings(deadline=None, max_examples=200)
@given(window_views(), histories(), SLOT_MAPS)
def test_window_functions_equal_both_oracles(view, history, slots):
    assert_views_equal_both_oracles([view], history, slots)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s, sum(d) AS total FROM t GROUP BY s ORDER BY total DESC NULLS LAST, s LIMIT 2",
        "SELECT d, i FROM t ORDER BY k LIMIT 3 OFFSET 1",
        "SELECT distinct_s.s FROM (SELECT s FROM u GROUP BY s) AS distinct_s ORDER BY s DESC NULLS LAST OFFSET 1",
        "SELECT t.k, o.q FROM t JOIN (SELECT p, q FROM u ORDER BY q DESC, p LIMIT 2) AS o ON t.i = o.q",
        "SELECT max(o.d) AS top FROM (SELECT d, k FROM t ORDER BY d, k DESC LIMIT 2) AS o",
        "SELECT k, w + d AS e FROM t ORDER BY w + d DESC NULLS FIRST, k LIMIT 2",
        "SELECT k FROM (SELECT k, i FROM t ORDER BY i DESC NULLS LAST, k LIMIT 4) AS a ORDER BY k LIMIT 2",
    ],
)
@settings(deadline=None, max_examples=15)
@given(histories(), SLOT_MAPS)
def test_known_forms(sql, history, slots):
    assert_views_equal_both_oracles([View(sql, sql)], history, slots)
