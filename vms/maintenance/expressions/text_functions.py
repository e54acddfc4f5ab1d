"""Functions of text. Characters are Unicode code points, positions count from 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vms.maintenance.expressions.per_distinct import PerDistinct
from vms.maintenance.expressions.value import Run
from vms.model.text import TextPool
from vms.plan.expr import Call


def runner(e: Call, pool: TextPool) -> Run | None:
    """The function of a call of this family."""
    if e.function in _FUNCTIONS:
        return PerDistinct(e, _FUNCTIONS[e.function], pool)
    if e.function in _OF_NULLS:
        return PerDistinct(e, _OF_NULLS[e.function], pool, strict=False)
    return None


def _substring(text: str, start: int, count: int | None = None) -> str:
    """`count` characters from `start` on; places before the first count but hold nothing."""
    if count is None:
        return text[max(start - 1, 0) :]
    if count < 0:
        raise ValueError("a negative count")
    return text[max(start - 1, 0) : max(start - 1 + count, 0)]


def _right(text: str, count: int) -> str:
    """The last characters; with a negative count all but the first."""
    return text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "substring": _substring,
    "upper": str.upper,
    "lower": str.lower,
    "btrim": lambda text, signs=" ": text.strip(signs) if signs else text,
    "ltrim": lambda text, signs=" ": text.lstrip(signs) if signs else text,
    "rtrim": lambda text, signs=" ": text.rstrip(signs) if signs else text,
    "character_length": len,
    "octet_length": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "str_concat": lambda *texts: "".join(texts),
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "strpos": lambda text, part: text.find(part) + 1,
    "left": lambda text, count: text[:count],
    "right": _right,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": str.__contains__,
    "reverse": lambda text: text[::-1],
}

#: These are given None for NULL.
_OF_NULLS: dict[str, Callable[..., Any]] = {
    "concat": lambda *texts: "".join(t for t in texts if t is not None),
    "concat_ws": lambda sign, *texts: None if sign is None else sign.join(t for t in texts if t is not None),
}
