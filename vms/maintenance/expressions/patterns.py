"""LIKE and regular expressions. With a constant pattern each distinct text is matched once, else once a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vms.maintenance.expressions.per_distinct import DONE, Kept, Results
from vms.maintenance.expressions.text import known_rows, pick
from vms.maintenance.expressions.value import Run, Value, mark
from vms.model.text import TextPool
from vms.plan.expr import Call, Literal
from vms.plan.regex import to_re2


def runner(e: Call, pool: TextPool) -> Run | None:
    """The function of a call of this family."""
    if e.function not in _PATTERNS:
        return None
    translate, ignore_case = _PATTERNS[e.function]
    kept = Kept(pool) if isinstance(e.args[1], Literal) else None
    return lambda v: _matched(v[0], v[1], pool, translate, ignore_case, kept)


def _matched(
    a: Value, pattern: Value, pool: TextPool, translate: Callable[[str], str], ignore_case: bool, kept: Kept | None
) -> Value:
    """Whether the texts match their patterns; failed where a pattern is none."""
    rows = np.broadcast_shapes(a.codes.shape, pattern.codes.shape)[0]
    known = known_rows(rows, a, pattern)
    texts, patterns = pick(a.codes, known), pick(pattern.codes, known)
    matched = np.zeros(len(texts), np.bool_)
    failed = np.zeros(rows, np.bool_)
    for p in np.unique(patterns).tolist():
        of_pattern = patterns == p
        try:
            regex = translate(pool.text(p))
        except ValueError:
            failed[np.flatnonzero(known)[of_pattern]] = True
            continue

        def match(found: pa.Array, regex: str = regex) -> np.ndarray:
            hits = pc.match_substring_regex(found, regex, ignore_case=ignore_case)
            return hits.to_numpy(zero_copy_only=False)

        def of_texts(moving: Sequence[Sequence[str]], count: int) -> Results:
            return np.full(count, DONE, np.uint8), match(pa.array(moving[0], pa.string()))

        if kept is not None:
            matched = kept.look_up(texts, of_texts)[1]
        else:
            unique, inverse = np.unique(texts[of_pattern], return_inverse=True)
            matched[of_pattern] = match(pool.texts(unique))[inverse]
    out = np.zeros(rows, np.bool_)
    out[known] = matched
    return mark(Value(out).with_state_of(a, pattern), failed)


def like_regex(pattern: str) -> str:
    """The RE2 expression that matches the same texts as the LIKE pattern, over code points.

    % is any text, _ one character, a backslash takes the next character as it is, and itself where it ends the
    pattern. ILIKE folds case by Unicode's simple rules.
    """
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


#: How a pattern of each kind becomes one of RE2, and whether case counts.
_PATTERNS: dict[str, tuple[Callable[[str], str], bool]] = {
    "like": (like_regex, False),
    "ilike": (like_regex, True),
    "regex_match": (to_re2, False),
    "regex_imatch": (to_re2, True),
}


def _quote(c: str) -> str:
    if c == "\0":
        return "\\x00"
    return c if c.isalnum() or ord(c) >= 128 or c == "_" else "\\" + c
