"""Text: order, and functions that look at each distinct value once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vms.maintenance.expressions.value import Value
from vms.model.changes import Bool, Int64
from vms.model.text import TextPool


def compare_text(a: Value, b: Value, pool: TextPool) -> Int64:
    """Below, equal to or above zero as a is before, equal to or after b in byte order; 0 for NULLs."""
    rows = np.broadcast_shapes(a.codes.shape, b.codes.shape)[0]
    known = known_rows(rows, a, b)
    left, right = pick(a.codes, known), pick(b.codes, known)
    rank = pool.ranks(np.concatenate([left, right]))
    sign = np.zeros(rows, np.int64)
    sign[known] = rank[: len(left)] - rank[len(left) :]
    return sign


def known_rows(rows: int, *args: Value) -> Bool:
    """Rows in which no argument is NULL or failed: the only ones whose text may be looked up."""
    known = np.ones(rows, np.bool_)
    for a in args:
        if a.valid is not None:
            known &= a.valid
        if a.failed is not None:
            known &= ~a.failed
    return known


def map_texts(a: Value, f: Callable[[str], int | None], pool: TextPool) -> tuple[list[int], Int64, Bool]:
    """f of every distinct known text: results (0 for None), each row's index into them, rows without one."""
    known = known_rows(len(a.codes), a)
    unique, inverse = np.unique(a.codes[known], return_inverse=True)
    results = [f(pool.text(c)) for c in unique.tolist()]
    index = np.full(len(a.codes), len(results), np.int64)
    index[known] = inverse
    missing = np.array([r is None for r in results] + [False])[index]
    return [r or 0 for r in results] + [0], index, missing


def intern_texts(texts: list[str], pool: TextPool) -> Int64:
    """Codes of computed texts."""
    return pool.intern(pa.array(texts, pa.string()))[0]


def pick(array: npt.NDArray[Any], known: Bool) -> npt.NDArray[Any]:
    """The elements of the known rows; that of a constant once a row."""
    return np.full(int(known.sum()), array[0], array.dtype) if len(array) != len(known) else array[known]
