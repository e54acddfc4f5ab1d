"""Text: order, LIKE, and functions of one text; each distinct value is looked at once a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vms.maintenance.expressions.value import Value
from vms.model.changes import Bool, Int64
from vms.model.text import TextPool


def compare_text(a: Value, b: Value, pool: TextPool) -> Int64:
    """Below, equal to or above zero as a is before, equal to or after b in byte order; 0 for NULLs."""
    rows = np.broadcast_shapes(a.codes.shape, b.codes.shape)[0]
    known = known_rows(rows, a, b)
    left, right = _pick(a.codes, known), _pick(b.codes, known)
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


def like(a: Value, pattern: Value, pool: TextPool, ignore_case: bool) -> Value:
    """SQL LIKE over code points: % any text, _ one character, a backslash takes the next character as it is.

    A backslash that ends the pattern stands for itself. ILIKE folds case by Unicode's simple rules.
    """
    rows = np.broadcast_shapes(a.codes.shape, pattern.codes.shape)[0]
    known = known_rows(rows, a, pattern)
    texts, patterns = _pick(a.codes, known), _pick(pattern.codes, known)
    matched = np.zeros(len(texts), np.bool_)
    for p in np.unique(patterns).tolist():
        of_pattern = patterns == p
        unique, inverse = np.unique(texts[of_pattern], return_inverse=True)
        hits = pc.match_substring_regex(pool.texts(unique), like_regex(pool.text(p)), ignore_case=ignore_case)
        matched[of_pattern] = hits.to_numpy(zero_copy_only=False)[inverse]
    out = np.zeros(rows, np.bool_)
    out[known] = matched
    return Value(out).with_state_of(a, pattern)


def like_regex(pattern: str) -> str:
    """The RE2 expression that matches the same texts as the LIKE pattern."""
    parts, i = [], 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            i += 1
            parts.append(_quote(pattern[i]))
        else:
            parts.append({"%": ".*", "_": "."}.get(c) or _quote(c))
        i += 1
    return f"(?s)\\A{''.join(parts)}\\z"


def intern_texts(texts: list[str], pool: TextPool) -> Int64:
    """Codes of computed texts."""
    return pool.intern(pa.array(texts, pa.string()))[0]


def _quote(c: str) -> str:
    if c == "\0":
        return "\\x00"
    return c if c.isalnum() or ord(c) >= 128 or c == "_" else "\\" + c


def _pick(codes: Int64, known: Bool) -> Int64:
    return np.full(int(known.sum()), codes[0], np.int64) if len(codes) != len(known) else codes[known]
