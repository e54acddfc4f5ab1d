"""Substrait's functions -> calls of the closed list (vms/plan/functions.py), typed by our own rules.

What Substrait says with a function of its own is put in terms of fewer ones here; what the list does not hold is
refused in the words of SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vms.model.types import BOOLEAN, VARCHAR, Kind
from vms.plan.expr import Call, Case, Expr, Literal
from vms.plan.functions import DATE_PARTS, DATE_UNITS, SUPPORTED, date_result, result_type
from vms.plan.refusals import Refused

#: Tests of a truth value, as comparisons that are never NULL.
_TRUTH_TESTS = {
    "is_true": ("is_not_distinct_from", True),
    "is_not_true": ("is_distinct_from", True),
    "is_false": ("is_not_distinct_from", False),
    "is_not_false": ("is_distinct_from", False),
}
_SAME = {"is_unknown": "is_null", "is_not_unknown": "is_not_null"}

#: How functions are written in SQL, where that is not `name(...)`.
_SPELLINGS = {
    "divide": ("/",),
    "modulus": ("%", "mod"),
    "str_concat": ("||", "concat"),
    "date_part": ("extract", "date_part"),
    "substring": ("substring", "substr"),
    "add": ("+",),
    "subtract": ("-",),
    "multiply": ("*",),
    "like": ("like",),
    "ilike": ("ilike",),
    "regex_match": ("~", "regexp_like"),
    "regex_imatch": ("~*", "regexp_like"),
    "regex_not_match": ("!",),
    "regex_not_imatch": ("!",),
    "make_array": ("array", "["),
    "struct": ("struct", "in"),
}
_NAMES = {
    "divide": "division",
    "modulus": "the remainder operator",
    "str_concat": "joining text with ||",
    "date_part": "a part of a date",
    "regex_match": "a regular expression",
    "regex_imatch": "a regular expression",
    "regex_not_match": "a regular expression",
    "regex_not_imatch": "a regular expression",
    "make_array": "an array",
    "struct": "a row as a value",
}


def readable(name: str) -> bool:
    """Whether the list holds the function for some arguments."""
    return name in SUPPORTED or name in _TRUTH_TESTS or name in _SAME or name in _FORMS


def to_call(name: str, args: Sequence[Expr]) -> Expr:
    """The function of Substrait as an expression of ours; Refused where there is none."""
    name = _SAME.get(name, name)
    if name in _TRUTH_TESTS:
        name, truth = _TRUTH_TESTS[name]
        args = [*args, Literal(truth, BOOLEAN)]
    return _FORMS[name](name, args) if name in _FORMS else call(name, *args)


def call(name: str, *args: Expr) -> Call:
    """A call of the closed list, typed; Refused where the list does not hold it."""
    t = result_type(name, [a.type for a in args])
    if t is None:
        raise refused(name, f" of ({', '.join(str(a.type) for a in args)})")
    return Call(name, args, t)


def refused(name: str, types: str = "") -> Refused:
    """Why a function cannot be used."""
    what = _NAMES.get(name, f"function {name}") + types
    instead = "compute it when reading the view, or store it in a column"
    return Refused(what, instead, *_SPELLINGS.get(name, (name,)))


def _like(name: str, args: Sequence[Expr]) -> Expr:
    """LIKE; another escape than the backslash is put in terms of it."""
    text, pattern, *escape = args
    if not escape or escape[0] == Literal(None, VARCHAR):
        return call(name, text, pattern)
    sign = escape[0].value if isinstance(escape[0], Literal) else None
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or not isinstance(sign, str):
        raise Refused("LIKE with ESCAPE and a pattern that is no constant", "use the default, a backslash", "escape")
    return call(name, text, Literal(_with_backslashes(pattern.value, sign), VARCHAR))


def _with_backslashes(pattern: str, escape: str) -> str:
    parts, i = [], 0
    while i < len(pattern):
        c = pattern[i]
        if c == escape:
            i += 1
            if i == len(pattern):
                raise Refused("a LIKE pattern that ends with its escape", "write the escape twice", "escape", "like")
            parts.append("\\" + pattern[i])
        else:
            parts.append("\\\\" if c == "\\" else c)
        i += 1
    return "".join(parts)


def _subtract(name: str, args: Sequence[Expr]) -> Expr:
    if all(a.type.kind is Kind.TIMESTAMP for a in args):
        instead = "subtract seconds: extract(epoch FROM a) - extract(epoch FROM b)"
        raise Refused("the time between two timestamps", instead, "-")
    return call(name, *args)


def _nullif(_: str, args: Sequence[Expr]) -> Expr:
    return Case(((call("equal", *args), Literal(None, args[0].type)),), args[0], args[0].type)


def _date_function(name: str, args: Sequence[Expr]) -> Expr:
    word, arg = args
    known = DATE_PARTS if name == "date_part" else DATE_UNITS
    asked = str(word.value).lower() if isinstance(word, Literal) else None
    t = None if asked is None else date_result(name, asked, arg.type)
    if asked is None or asked not in known:
        what = f"the part {asked} of a date" if asked is not None else f"{name} with a part that is no constant"
        raise Refused(what, f"use one of {', '.join(sorted(known))}", *_SPELLINGS.get(name, (name,)))
    if t is None:
        raise refused(name, f" of {arg.type}")
    return Call(name, (Literal(asked, VARCHAR), arg), t)


_FORMS: dict[str, Callable[[str, Sequence[Expr]], Expr]] = {
    "like": _like,
    "ilike": _like,
    "subtract": _subtract,
    "nullif": _nullif,
    "date_part": _date_function,
    "date_trunc": _date_function,
}
