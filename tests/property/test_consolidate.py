"""Consolidation against a Counter: equal rows once, weights summed, zeros dropped."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels.consolidate import consolidate
from vms.model.arrow import from_column, to_column
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.types import BIGINT, DOUBLE, VARCHAR, decimal

WIDE = decimal(38, 0)
DOMAIN = {
    BIGINT: [None, 0, 1, -(2**63)],
    VARCHAR: [None, "", "a"],
    DOUBLE: [None, 0.0, -0.0, float("nan"), float("inf")],
    WIDE: [None, *map(Decimal, (0, 1, 2**64, 2**64 + 1))],
}


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(list(DOMAIN)), max_size=3), st.data())
def test_the_same_multiset_with_every_row_once(types, data):
    row = st.tuples(*(st.sampled_from(DOMAIN[t]) for t in types))
    rows = data.draw(st.lists(st.tuples(row, st.sampled_from([1, 1, -1, 2, -3, 0])), max_size=30))
    pool = TextPool()
    columns = tuple(to_column(t, pa.array([r[i] for r, _ in rows], t.arrow), pool) for i, t in enumerate(types))
    given_weights = np.array([w for _, w in rows], np.int64)
    changes = Changes(columns, given_weights.copy())
    result = consolidate(changes, types)

    def readable(c: Changes) -> list:
        arrays = [from_column(t, column, pool).to_pylist() for t, column in zip(types, c.columns)]
        return list(map(repr, zip(*arrays))) if types else ["()"] * len(c)

    total: Counter = Counter()
    for text, weight in zip(readable(changes), given_weights.tolist()):
        total[text] += weight
    kept = readable(result)
    assert dict(zip(kept, result.weights.tolist())) == {text: weight for text, weight in total.items() if weight}
    assert len(set(kept)) == len(kept)
    first_seen = list(dict.fromkeys(readable(changes)))
    assert kept == [text for text in first_seen if total[text]], "the first of equal rows keeps its place"
    np.testing.assert_array_equal(changes.weights, given_weights, "the input is not changed")
