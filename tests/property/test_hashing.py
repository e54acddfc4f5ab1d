"""The slot of a row depends on its values alone: not on codes, batches, high words or the process."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels.hashing import SLOTS, hash_columns, slot_of
from vms.model.arrow import to_column
from vms.model.changes import Column
from vms.model.text import TextPool
from vms.model.types import BIGINT, DOUBLE, INTEGER, VARCHAR, decimal

NARROW, WIDE = decimal(10, 2), decimal(38, 2)
VALUES = {
    BIGINT: st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    VARCHAR: st.one_of(st.none(), st.text(max_size=5)),
    WIDE: st.one_of(st.none(), st.integers(-(10**37), 10**37).map(lambda n: Decimal(n) / 100)),
    DOUBLE: st.one_of(st.none(), st.floats()),
}


def columns_of(types, rows, pool: TextPool) -> list[Column]:
    return [to_column(t, pa.array([r[i] for r in rows], t.arrow), pool) for i, t in enumerate(types)]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3), st.data())
def test_equal_rows_have_equal_hashes_in_every_pool_and_batch(types, data):
    rows = data.draw(st.lists(st.tuples(*(VALUES[t] for t in types)), min_size=1, max_size=8))
    one, two = TextPool(), TextPool()
    two.intern(pa.array(["other", "text", "first"]))
    whole = hash_columns(columns_of(types, rows, one), types, one, len(rows))
    for i, row in enumerate(rows):
        single = hash_columns(columns_of(types, [row], two), types, two, 1)
        assert single[0] == whole[i]
    slots = slot_of(columns_of(types, rows, two), types, two, len(rows))
    assert ((slots >= 0) & (slots < SLOTS)).all()


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(-(10**10) + 1, 10**10 - 1), min_size=1, max_size=8))
def test_a_number_hashes_alike_with_and_without_a_high_word(numbers):
    """Also beside a number that needs one, and as DECIMAL of another precision."""
    pool = TextPool()
    decimals = [Decimal(n) / 100 for n in numbers]
    narrow = hash_columns([to_column(NARROW, pa.array(decimals, NARROW.arrow), pool)], [NARROW], pool, len(numbers))
    beside = [to_column(WIDE, pa.array([*decimals, Decimal(10**30)], WIDE.arrow), pool)]
    assert beside[0].high is not None
    np.testing.assert_array_equal(hash_columns(beside, [WIDE], pool, len(numbers) + 1)[:-1], narrow)


def test_zero_has_one_hash_and_nan_has_one():
    pool = TextPool()
    other_nan = np.array([0x7FF8_0000_0000_0001], np.int64).view(np.float64)[0]
    hashes = hash_columns(
        columns_of([DOUBLE], [(0.0,), (-0.0,), (float("nan"),), (other_nan,)], pool), [DOUBLE], pool, 4
    )
    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]


def test_null_differs_from_zero_and_from_empty_text():
    pool = TextPool()
    for type_, value in ((BIGINT, 0), (VARCHAR, ""), (DOUBLE, 0.0), (WIDE, Decimal(0))):
        hashes = hash_columns(columns_of([type_], [(None,), (value,)], pool), [type_], pool, 2)
        assert hashes[0] != hashes[1]


def test_the_order_of_columns_matters():
    pool = TextPool()
    rows = [(1, 2), (2, 1)]
    hashes = hash_columns(columns_of([BIGINT, BIGINT], rows, pool), [BIGINT, BIGINT], pool, 2)
    assert hashes[0] != hashes[1]


def test_neighbours_and_strides_spread_evenly():
    """Expected 64 keys a slot; a slot with none or with more than twice as many would be a bad hash."""
    pool = TextPool()
    count = 64 * SLOTS
    for keys in (np.arange(count), np.arange(count) << 32, np.arange(count) * SLOTS):
        slots = slot_of([Column(keys)], [BIGINT], pool, count)
        sizes = np.bincount(slots, minlength=SLOTS)
        assert sizes.min() > 20 and sizes.max() < 128
    codes, _ = pool.intern(pa.array([f"customer {i}" for i in range(count)]))
    sizes = np.bincount(slot_of([Column(codes)], [VARCHAR], pool, count), minlength=SLOTS)
    assert sizes.min() > 20 and sizes.max() < 128


_PINNED = """
import pyarrow as pa
from vms.kernels.hashing import slot_of
from vms.model.arrow import to_column
from vms.model.text import TextPool
from vms.model.types import BIGINT, VARCHAR
pool = TextPool()
types = [BIGINT, VARCHAR]
arrays = [pa.array([0, -1, 2**62, None]), pa.array(["", "é", "x", None])]
columns = [to_column(t, a, pool) for t, a in zip(types, arrays)]
print(slot_of(columns, types, pool, 4).tolist(), slot_of([], [], pool, 1).tolist())
"""


def test_slots_are_those_of_every_other_process_and_version():
    """Pinned: members of one cluster that disagreed about them would send rows to the wrong owner."""
    for seed in ("1", "2"):
        run = [sys.executable, "-c", _PINNED]
        found = subprocess.run(run, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        assert found.strip() == "[531, 977, 677, 414] [0]"


def test_integers_of_both_widths_hash_alike():
    pool = TextPool()
    for value in (0, -5, 2**31 - 1):
        wide = slot_of(columns_of([BIGINT], [(value,)], pool), [BIGINT], pool, 1)
        assert wide == slot_of(columns_of([INTEGER], [(value,)], pool), [INTEGER], pool, 1)
