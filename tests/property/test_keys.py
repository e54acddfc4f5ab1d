"""Rows as words, and the hash index over them, against a dict."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels.keys import MIN_ENTRIES, KeyIndex, key_width, key_words, words_to_columns
from vms.model.arrow import from_column, to_column
from vms.model.text import TextPool
from vms.model.types import BIGINT, BOOLEAN, DOUBLE, INTEGER, VARCHAR, decimal

WIDE = decimal(38, 0)
DOMAIN = {
    BIGINT: [None, 0, -1, -(2**63), 2**63 - 1],
    BOOLEAN: [None, False, True],
    VARCHAR: [None, "", "a"],
    DOUBLE: [None, 0.0, -1.5, float("inf")],
    WIDE: [None, *map(Decimal, (0, -1, 2**63, -(2**63) - 1, 2**64, 10**37))],
}


class Model:
    """The index beside a dict that must agree with it after every call."""

    def __init__(self, width: int) -> None:
        self.index, self.ids = KeyIndex(width), {}

    def upsert(self, keys: list[tuple]) -> None:
        ids, fresh = self.index.upsert(words(keys, self.index.width))
        new = list(dict.fromkeys(k for k in keys if k not in self.ids))
        assert len(fresh) == len(new)
        self.ids.update(zip(new, fresh.tolist()))
        assert ids.tolist() == [self.ids[k] for k in keys]

    def remove(self, keys: list[tuple]) -> None:
        self.index.remove(np.array([self.ids.pop(k) for k in keys], np.int64))

    def compact(self) -> None:
        before = self.index.compact().tolist()
        new_id = {old: new for new, old in enumerate(before)}
        self.ids = {key: new_id[id_] for key, id_ in self.ids.items()}
        assert len(before) == len(self.ids)
        assert self.index.capacity <= max(MIN_ENTRIES, 4 * len(self.ids))

    def check(self, others: list[tuple]) -> None:
        assert len(self.index) == len(self.ids)
        assert self.index.live_ids().tolist() == sorted(self.ids.values())
        assert max(self.ids.values(), default=-1) < self.index.capacity
        asked = [*self.ids, *others]
        expected = [self.ids.get(k, -1) for k in asked]
        assert self.index.lookup(words(asked, self.index.width)).tolist() == expected


def words(keys: list[tuple], width: int) -> np.ndarray:
    return np.array(keys, np.int64).reshape(len(keys), width)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 3), st.data())
def test_the_index_is_a_dict_with_stable_ids(width, data):
    """Few distinct words, so that keys come back; more keys than the first capacity, so that it grows."""
    word = st.one_of(st.integers(-1, 1), st.integers(0, 200), st.sampled_from([-(2**63), 2**63 - 1, 1 << 32]))
    keys = st.lists(st.tuples(*[word] * width), max_size=80)
    model = Model(width)
    for _ in range(data.draw(st.integers(1, 8))):
        action = data.draw(st.sampled_from(["upsert", "upsert", "remove", "compact", "grow"]))
        if action == "upsert":
            model.upsert(data.draw(keys))
        elif action == "remove" and model.ids:
            model.remove(data.draw(st.lists(st.sampled_from(sorted(model.ids)), unique=True)))
        elif action == "compact":
            model.compact()
        elif action == "grow":
            model.index.grow()
        model.check(data.draw(keys))


def test_full_probe_chains_survive_removal_in_any_order():
    """Tens of thousands of keys leave in random order: every one that stays is found, none that left."""
    size = 20_000
    rng = np.random.default_rng(1)
    keys = rng.permutation(size).reshape(-1, 1)
    index = KeyIndex(1)
    ids, _ = index.upsert(keys)
    order = rng.permutation(size)
    for gone in np.array_split(order, 10):
        index.remove(ids[gone])
        ids[gone] = -1
        np.testing.assert_array_equal(index.lookup(keys), ids)
    assert len(index) == 0


def test_memory_is_given_back():
    index = KeyIndex(2)
    small = index.memory_bytes()
    ids, _ = index.upsert(np.arange(20_000).reshape(-1, 2))
    assert not index.wants_compaction()
    index.remove(ids[:-5])
    assert index.wants_compaction()
    index.compact()
    assert index.memory_bytes() == small and not index.wants_compaction()
    assert (index.lookup(np.arange(20_000).reshape(-1, 2)[-5:]) == np.arange(5)).all()


@settings(deadline=None, max_examples=150)
@given(st.lists(st.sampled_from(list(DOMAIN)), max_size=5), st.booleans(), st.data())
def test_words_are_equal_where_rows_are_and_turn_back_into_them(types, nullable, data):
    domains = [[v for v in DOMAIN[t] if nullable or v is not None] for t in types]
    rows = data.draw(st.lists(st.tuples(*map(st.sampled_from, domains)), min_size=1, max_size=12))
    pool = TextPool()
    columns = [to_column(t, pa.array([r[i] for r in rows], t.arrow), pool) for i, t in enumerate(types)]
    made = key_words(columns, types, len(rows), nullable=nullable)
    assert made.shape == (len(rows), key_width(types, nullable)) and made.flags.c_contiguous
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            assert (a == b) == (made[i] == made[j]).all()
    back = words_to_columns(made, types, nullable=nullable)
    arrays = [from_column(t, c, pool).to_pylist() for t, c in zip(types, back)]
    assert list(zip(*arrays)) == (rows if types else [])


def test_more_than_64_nullable_columns():
    types = [INTEGER] * 70
    pool = TextPool()
    rows = [[None if (i * r) % 3 == 1 else i for i in range(70)] for r in range(4)]
    columns = [to_column(INTEGER, pa.array([row[i] for row in rows], pa.int32()), pool) for i in range(70)]
    back = words_to_columns(key_words(columns, types, 4, nullable=True), types, nullable=True)
    assert [from_column(INTEGER, c, pool).to_pylist() for c in back] == [list(c) for c in zip(*rows)]
