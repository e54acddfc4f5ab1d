"""The join index against dicts: rows under keys, found from either side."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels.join_index import LEFT, RIGHT, JoinIndex

#: A row is (key, value); the right side's rows have one more word.
rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60), st.sampled_from([1, 1, 1, -1, -1, 2, 0])), max_size=60)
WIDTHS = (2, 3)


def words(found, side: int) -> np.ndarray:
    made = np.zeros((len(found), WIDTHS[side]), np.int64)
    made[:, :2] = [(key, value) for key, value, _ in found] or np.empty((0, 2))
    return made


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from([LEFT, RIGHT]), rows, st.booleans()), min_size=1, max_size=10))
def test_every_row_is_found_under_its_key_with_its_weight(history):
    index, sides = JoinIndex(1, WIDTHS), (Counter(), Counter())
    for side, batch, empty_it in history:
        if empty_it:
            batch = batch + [(k, v, -w) for (k, v), w in sides[side].items() if not any(b[:2] == (k, v) for b in batch)]
        keys = np.array([[key] for key, _, _ in batch], np.int64).reshape(-1, 1)
        ids = index.enter(keys)
        index.add(side, ids, words(batch, side), np.array([w for _, _, w in batch], np.int64))
        index.release(ids)
        for key, value, weight in batch:
            sides[side][key, value] += weight
        for at in (LEFT, RIGHT):
            live = {row: w for row, w in sides[at].items() if w}
            held = index.row_ids(at)
            found = {
                tuple(row[:2]): w for row, w in zip(index.words(at, held).tolist(), index.weights(at, held).tolist())
            }
            assert found == live
            there = sorted({key for s in sides for (key, _), w in s.items() if w})
            positions, matches = index.probe(at, index.find(np.array(there, np.int64).reshape(-1, 1)))
            pairs = Counter((there[p], int(index.words(at, matches[n : n + 1])[0, 1])) for n, p in enumerate(positions))
            assert pairs == Counter(live.keys())
        gone = sorted({key for s in sides for key, _ in s} - {key for s in sides for (key, _), w in s.items() if w})
        assert (index.find(np.array(gone, np.int64).reshape(-1, 1)) == -1).all(), "keys without rows are forgotten"
