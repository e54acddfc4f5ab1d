"""Ordered groups (min and max under deletes) against a sorted list for each group."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels.ordered import OrderedGroups, TextOrder
from vms.model.arrow import from_column, to_column
from vms.model.text import TextPool
from vms.model.types import BIGINT, DATE, DOUBLE, VARCHAR, SqlType, decimal

WIDE = decimal(38, 0)
DOMAIN = {
    BIGINT: [0, 1, -1, -(2**63), 2**63 - 1],
    WIDE: [*map(Decimal, (0, 1, -1, 2**63, -(2**63) - 1, 2**64, 2**64 - 1, -(2**64), 10**37, -(10**37)))],
    DOUBLE: [0.0, -0.0, 0.5, -0.5, 5e-324, -1e300, math.inf, -math.inf, math.nan],
    VARCHAR: ["", "a", "b", "ab", "B", "é", "z\U00010000", "z\uffff"],
    DATE: [0, -1, 10_000],
}
GROUPS = 4


def order(value):
    """As SQL orders: NaN is equal to itself and above everything; text by its UTF-8 bytes."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode() if isinstance(value, str) else value


def column_of(type_: SqlType, values: list, pool: TextPool):
    array = pa.array(values, pa.int32()) if type_ == DATE else pa.array(values, type_.arrow)
    return to_column(type_, array.cast(type_.arrow), pool)


def read(type_: SqlType, column, pool: TextPool) -> list:
    array = from_column(type_, column, pool)
    return (array.cast(pa.int32()) if type_ == DATE else array).to_pylist()


@st.composite
def histories(draw):
    """(type, steps): each step adds values or takes back some that are there; now and then groups vanish."""
    type_ = draw(st.sampled_from(list(DOMAIN)))
    live: defaultdict = defaultdict(Counter)
    steps = []
    for _ in range(draw(st.integers(1, 8))):
        rows = []
        for _ in range(draw(st.integers(0, 10))):
            group, value = draw(st.integers(0, GROUPS - 1)), draw(st.sampled_from([None, *DOMAIN[type_]]))
            there = sorted((v for v, n in live[group].items() if n), key=repr)
            weight = draw(st.sampled_from([1, 1, 2]))
            if there and draw(st.booleans()):
                value = draw(st.sampled_from(there))
                weight = -draw(st.integers(1, live[group][value]))
            if value is not None:
                live[group][value] += weight
            rows.append((group, value, weight))
        steps.append((draw(st.permutations(rows)), draw(st.sampled_from(["", "", "remove", "renumber"]))))
        if steps[-1][1] == "remove":
            live.pop(0, None)
        elif steps[-1][1] == "renumber":
            live = defaultdict(Counter, {GROUPS - 1 - g: values for g, values in live.items()})
    return type_, steps


@settings(deadline=None, max_examples=250)
@given(histories())
def test_extremes_follow_inserts_and_deletes(history):
    type_, steps = history
    pool = TextPool()
    ordered, live = OrderedGroups(type_, pool), defaultdict(Counter)
    groups = np.arange(GROUPS)
    for rows, action in steps:
        values = column_of(type_, [v for _, v, _ in rows], pool)
        weights = np.array([w for _, _, w in rows], np.int64)
        ordered.add(np.array([g for g, _, _ in rows], np.int64), values, weights)
        for group, value, weight in rows:
            if value is not None:
                live[group][repr(value + 0.0) if isinstance(value, float) else value] += weight
        if action == "remove":
            ordered.remove(np.arange(GROUPS) == 0)
            live.pop(0, None)
        elif action == "renumber":
            ordered.renumber(groups[::-1])
            live = defaultdict(Counter, {GROUPS - 1 - g: found for g, found in live.items()})
        there = {g: [float(v) if type_ == DOUBLE else v for v, n in live[g].items() if n] for g in range(GROUPS)}
        for largest, pick in ((False, min), (True, max)):
            expected = [pick(there[g], key=order) if there[g] else None for g in range(GROUPS)]
            got = read(type_, ordered.extremes(groups, largest=largest), pool)
            assert list(map(repr, got)) == list(map(repr, expected))
        held, values, counts = ordered.entries()
        found = Counter(zip(held.tolist(), map(repr, read(type_, values, pool)), counts.tolist()))
        assert found == Counter(
            (g, v if type_ == DOUBLE else repr(v), n) for g in live for v, n in live[g].items() if n
        )
        pool.sweep([ordered.text_codes()])


def test_extremes_leave_in_every_order():
    """Thousands of values of one group; again and again an extreme leaves, from either end or the middle."""
    size, rng = 3000, np.random.default_rng(3)
    ordered = OrderedGroups(BIGINT, TextPool())
    values, group = np.arange(size), np.zeros(1, np.int64)
    ordered.add(
        np.zeros(size, np.int64), column_of(BIGINT, rng.permutation(values), TextPool()), np.ones(size, np.int64)
    )
    left = list(values)
    for turn in range(size - 1):
        gone = left.pop((0, -1, rng.integers(len(left)))[turn % 3])
        ordered.add(group, column_of(BIGINT, [gone], TextPool()), np.array([-1]))
        assert ordered.extremes(group, largest=False).codes[0] == left[0]
        assert ordered.extremes(group, largest=True).codes[0] == left[-1]


def test_memory_follows_the_values():
    pool, size = TextPool(), 4000
    ordered = OrderedGroups(VARCHAR, pool)
    small = ordered.memory_bytes()

    def run(numbers: range, weight: int) -> None:
        column = column_of(VARCHAR, [f"t{n}" for n in numbers], pool)
        ordered.add(np.zeros(len(numbers), np.int64), column, np.full(len(numbers), weight))
        pool.sweep([ordered.text_codes()])

    run(range(size), 1)
    run(range(10, size), -1)
    assert read(VARCHAR, ordered.extremes(np.zeros(1, np.int64), largest=True), pool) == ["t9"]
    assert ordered.memory_bytes() < 2 * small and len(pool) <= 100


@settings(deadline=None, max_examples=100)
@given(st.lists(st.lists(st.text(max_size=4), min_size=1, max_size=6), min_size=1, max_size=8), st.data())
def test_text_numbers_compare_as_the_texts_do(batches, data):
    pool = TextPool()
    numbers, known = TextOrder(pool), set()
    for texts in batches:
        numbers.add(np.array([pool.code(t) for t in texts]))
        known |= set(texts)
        if data.draw(st.booleans()):
            known = set(data.draw(st.lists(st.sampled_from(sorted(known)), min_size=1)))
            numbers.keep(np.array([pool.code(t) for t in known]))
        by_number = sorted(known, key=lambda t: numbers.labels[pool.code(t)])
        assert by_number == sorted(known, key=str.encode)
        assert [pool.text(c) for c in numbers.codes] == by_number


def test_texts_are_numbered_anew_where_there_is_no_room():
    """Each text goes in right before the last one, so the gap halves until there is none."""
    pool = TextPool()
    numbers = TextOrder(pool)
    texts = ["b"] + [f"a{'z' * n}" for n in range(200)]
    for text in texts:
        numbers.add(np.array([pool.code(text)]))
    labels = [int(numbers.labels[pool.code(t)]) for t in sorted(texts)]
    assert labels == sorted(set(labels)) and labels[0] > 0
