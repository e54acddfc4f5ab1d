"""The words of rows compare as the rows do: against DuckDB's ORDER BY."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from test_top_k import DOMAIN, FIELDS, TYPES, expected, table_of

from vms.kernels.order import RowOrder, places, sort_words
from vms.model.arrow import to_column
from vms.model.order import SortKey, complete
from vms.model.text import TextPool
from vms.plan.plan import TopK
from vms.testing.oracle import DuckOracle

DUCK = DuckOracle()
ROWS = st.lists(st.tuples(*(st.sampled_from(values) for values in DOMAIN.values())), max_size=12)
KEYS = st.lists(
    st.builds(SortKey, st.integers(0, len(FIELDS) - 1), st.booleans(), st.booleans()),
    max_size=3,
    unique_by=lambda k: k.column,
)


@settings(deadline=None, max_examples=150)
@given(ROWS, KEYS)
def test_rows_sorted_by_words_are_in_the_order_of_sql(rows, keys):
    pool, table = TextPool(), table_of(rows)
    columns = [to_column(t, c, pool) for t, c in zip(TYPES, table.columns)]
    words = RowOrder(complete(keys, len(FIELDS)), TYPES, pool).words(columns, len(rows))
    ours = table.take(pa.array(sort_words(words)))
    theirs = DUCK.evaluate(expected(TopK(tuple(keys), 0, None)), {"rows": table})
    assert list(map(repr, ours.to_pylist())) == list(map(repr, theirs.cast(table.schema).to_pylist()))


def test_words_stay_comparable_until_the_version_changes():
    """Texts that come between others until there is no room: then all are numbered anew, and it is told."""
    pool = TextPool()
    order = RowOrder([SortKey(0)], TYPES[:1], pool)

    def words(texts: list[str]):
        return order.words([to_column(TYPES[0], pa.array(texts), pool)], len(texts))

    known = ["a", "b"]
    made, version = words(known), order.version
    for n in range(200):
        fresh = "a" + "a" * n + "b"
        at = places(made, words([fresh])) if order.version == version else None
        if order.version != version:
            made, version = words(known), order.version
            at = places(made, words([fresh]))
        assert at is not None and at[0] == sum(k < fresh for k in known)
        known = sorted([*known, fresh])
        made = words(known)
    assert version > 0 and (np.diff(made[:, 1]) > 0).all()
