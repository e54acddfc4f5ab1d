"""LIKE and regular expressions; each distinct text is matched once a batch."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from vms.maintenance.expressions.text import known_rows, pick
from vms.maintenance.expressions.value import Run, Value
from vms.model.text import TextPool
from vms.plan.expr import Call


def runner(e: Call, pool: TextPool) -> Run | None:
    """The function of a call of this family."""
    if e.function in ("like", "ilike"):
        return lambda v: like(v[0], v[1], pool, e.function == "ilike")
    return None


def like(a: Value, pattern: Value, pool: TextPool, ignore_case: bool) -> Value:
    """SQL LIKE over code points: % any text, _ one character, a backslash takes the next character as it is.

    A backslash that ends the pattern stands for itself. ILIKE folds case by Unicode's simple rules.
    """
    rows = np.broadcast_shapes(a.codes.shape, pattern.codes.shape)[0]
    known = known_rows(rows, a, pattern)
    texts, patterns = pick(a.codes, known), pick(pattern.codes, known)
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


def _quote(c: str) -> str:
    if c == "\0":
        return "\\x00"
    return c if c.isalnum() or ord(c) >= 128 or c == "_" else "\\" + c
