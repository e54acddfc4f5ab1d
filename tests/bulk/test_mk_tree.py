"""The MK tree against a plain set of the same keys."""

from __future__ import annotations

import random
import tracemalloc
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from vms.bulk.mk_tree import MKTree

#: Few values, so that keys meet their neighbours; lengths 0 to 3, so that prefixes of each other occur.
KEYS = st.lists(st.integers(0, 5).flatmap(lambda b: st.sampled_from([b, 255 - b])), max_size=3).map(bytes)


def keys_of(tree: MKTree) -> set[bytes]:
    """Every key that the ranges hold."""
    found = set()
    for first, last in tree.ranges():
        assert len(first) == len(last)
        for number in range(int.from_bytes(first, "big"), int.from_bytes(last, "big") + 1):
            found.add(number.to_bytes(len(first), "big"))
    return found


@given(st.lists(KEYS, max_size=60), st.lists(KEYS, max_size=20))
def test_it_holds_the_keys_that_were_added_and_no_other(added: list[bytes], others: list[bytes]) -> None:
    tree = MKTree(added)
    assert keys_of(tree) == set(added)
    assert all((key in tree) == (key in set(added)) for key in [*added, *others])


@given(st.lists(KEYS, max_size=60))
def test_ranges_of_one_length_are_in_order_and_never_neighbours(added: list[bytes]) -> None:
    ranges = list(MKTree(added).ranges())
    for (first, last), (after, _) in pairwise(ranges):
        assert first <= last
        if len(first) == len(after):
            assert int.from_bytes(after, "big") > int.from_bytes(last, "big") + 1


@given(st.lists(KEYS, max_size=60))
def test_a_scan_of_the_spans_meets_every_key_once(added: list[bytes]) -> None:
    spans = MKTree(added).spans()
    assert all(start < stop for start, stop in spans)
    assert all(stop < start for (_, stop), (start, _) in pairwise(spans))
    for key in added:
        assert sum(start <= key < stop for start, stop in spans) == 1


def test_many_scattered_keys_in_any_order_fill_and_empty_blocks() -> None:
    random_order = list(range(0, 12_000, 2))
    random.Random(3).shuffle(random_order)
    tree = MKTree(n.to_bytes(8, "big") for n in random_order)
    assert len(tree) == 6_000
    gaps = list(range(1, 12_000, 2))
    random.Random(4).shuffle(gaps)
    for number in gaps:
        tree.add(number.to_bytes(8, "big"))
    assert list(tree.ranges()) == [(bytes(8), (11_999).to_bytes(8, "big"))]


def test_a_million_neighbours_are_one_range_of_less_than_a_kilobyte() -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tree = MKTree(n.to_bytes(8, "big") for n in range(1_000_000))
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(tree) == 1
    assert used < 1024
