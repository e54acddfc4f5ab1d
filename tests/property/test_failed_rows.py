"""Rows for which an expression fails: counted while they are there, and moved with their slots."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels.hashing import SLOTS
from vms.maintenance.operations.projection import ProjectionOperation
from vms.maintenance.operations.selection import SelectionOperation
from vms.model.arrow import from_column, to_column
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.types import BIGINT, BOOLEAN, INTEGER, VARCHAR
from vms.plan.expr import Call, Cast, Literal, Ref
from vms.plan.plan import Field, Projection, Selection, make_node

TYPES = (BIGINT, VARCHAR)
NUMBER = Cast(Ref(1, VARCHAR), INTEGER)
TEXTS = [None, "0", "1", "-7", "x", "", "12 monkeys", "99999999999"]
row = st.tuples(st.integers(0, 2), st.sampled_from(TEXTS))
steps = st.lists(
    st.tuples(st.lists(st.tuples(row, st.sampled_from([1, 1, 2, -1, -1])), max_size=8), st.booleans()),
    min_size=1,
    max_size=6,
)


def projection(pool: TextPool) -> ProjectionOperation:
    fields = (Field("k", BIGINT), Field("n", INTEGER))
    return ProjectionOperation(make_node(Projection((Ref(0, BIGINT), NUMBER)), (), fields, None), TYPES, pool)


def selection(pool: TextPool) -> SelectionOperation:
    positive = Call("gte", (NUMBER, Literal(0, INTEGER)), BOOLEAN)
    fields = (Field("k", BIGINT), Field("s", VARCHAR))
    return SelectionOperation(make_node(Selection(positive), (), fields, None), TYPES, pool)


def number(text: str | None) -> int | None:
    """As SQL casts text to INTEGER; raises ValueError where there is no result."""
    if text is None:
        return None
    value = int(text)
    if not -(2**31) <= value < 2**31:
        raise ValueError(text)
    return value


def fails(text: str | None) -> bool:
    try:
        number(text)
    except ValueError:
        return True
    return False


def changes_of(rows, pool: TextPool) -> Changes:
    columns = tuple(to_column(t, pa.array([r[i] for r, _ in rows], t.arrow), pool) for i, t in enumerate(TYPES))
    return Changes(columns, np.array([w for _, w in rows], np.int64))


@settings(deadline=None, max_examples=150)
@given(steps, st.sampled_from([projection, selection]), st.integers(0, 2**32 - 1))
def test_failed_rows_are_counted_wherever_their_slots_are(history, make, seed):
    """Two members hold the slots; they exchange halves. Only the sum over both has a meaning."""
    slots = np.random.default_rng(seed).random(SLOTS) < 0.5
    pools = TextPool(), TextPool()
    members = [make(pool) for pool in pools]
    total: Counter = Counter()
    for number_of_step, (rows, move) in enumerate(history):
        at = number_of_step % 2
        out = members[at].step([changes_of(rows, pools[at])])
        types = (BIGINT, INTEGER) if make is projection else TYPES
        columns = [from_column(t, c, pools[at]).to_pylist() for t, c in zip(types, out.columns)]
        emitted = list(zip(zip(*columns), out.weights.tolist()))
        if make is projection:
            assert emitted == [((k, number(s)), w) for (k, s), w in rows if not fails(s)]
        else:
            assert emitted == [((k, s), w) for (k, s), w in rows if not fails(s) and s is not None and number(s) >= 0]
        for one, weight in rows:
            total[one] += weight
        if move:
            given_away = [member.export(slots) for member in members]
            for member in members:
                member.drop(slots)
                assert member.export(slots) == []
            for member, state in zip(members, reversed(given_away)):
                member.load(state)
        failed = {r: w for r, w in total.items() if fails(r[1]) and w}
        assert sum(m.error_count for m in members) == sum(failed.values())


def test_an_error_names_expression_and_value_until_the_row_is_mended():
    pool = TextPool()
    operation = projection(pool)
    operation.step([changes_of([((1, "x"), 1), ((2, "5"), 1)], pool)])
    assert operation.error_count == 1
    assert operation.last_error == "CAST(column 2 AS INTEGER) has no result for 'x'"
    healed = operation.step([changes_of([((1, "x"), -1), ((1, "7"), 1)], pool)])
    assert (operation.error_count, operation.last_error) == (0, None)
    assert [c.codes.tolist() for c in healed.columns] == [[1], [7]]
