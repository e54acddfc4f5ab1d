"""DISTINCT and set operations: random views over random histories, equal to both oracles after every step."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from random_sets import set_views
from random_views import View, histories, slot_maps
from view_runs import assert_views_equal_both_oracles

from vms.testing.plan_run import MEMBERS


@settings(deadline=None, max_examples=100)
@given(
    st.lists(set_views(), min_size=2, max_size=2),
    histories(),
    st.lists(slot_maps(len(MEMBERS)), min_size=4, max_size=4),
)
def test_views_equal_both_oracles_on_one_member_and_on_three(definitions: list[View], history, slots):
    assert_views_equal_both_oracles(definitions, history, slots)
