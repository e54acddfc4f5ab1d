"""Substrait's functions -> calls of the closed list (vms/plan/functions.py), typed by our own rules.

What Substrait says with a function of its own is put in terms of fewer ones here; what the list does not hold is
refused in the words of SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vms.model.types import BOOLEAN, MAX_PRECISION, VARCHAR, Kind, decimal
from vms.plan.expr import Call, Case, Cast, Expr, Literal
from vms.plan.functions import COMPARISONS, DATE_PARTS, DATE_UNITS, SUPPORTED, date_result, result_type, round_result
from vms.plan.refusals import Refused
from vms.plan.regex import to_re2

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
    "regex_match": ("!", "~", "regexp_like"),
    "regex_imatch": ("!", "~*", "regexp_like"),
    "make_array": ("array", "["),
    "struct": ("struct", "in"),
}
_NAMES = {
    "divide": "division",
    "modulus": "the remainder operator",
    "str_concat": "joining text with ||",
    "date_part": "a part of a date",
    "make_array": "an array",
    "struct": "a row as a value",
}


def readable(name: str) -> bool:
    """Whether the list holds the function for some arguments."""
    return name in SUPPORTED or name in _TRUTH_TESTS or name in _SAME or name in _FORMS


def to_call(name: str, args: Sequence[Expr]) -> Expr:
    """The function of Substrait as an expression of ours; Refused where there is none."""
    name = _SAME.get(name, name)
    if name in COMPARISONS:
        args = _of_one_scale(args)
    if name in _TRUTH_TESTS:
        name, truth = _TRUTH_TESTS[name]
        args = [*args, Literal(truth, BOOLEAN)]
    return _FORMS[name](name, args) if name in _FORMS else call(name, *args)


def _of_one_scale(args: Sequence[Expr]) -> Sequence[Expr]:
    """Two decimals of different types as one type that holds both: DataFusion leaves some as they are."""
    types = [a.type for a in args]
    if {t.kind for t in types} != {Kind.DECIMAL} or len(set(types)) == 1:
        return args
    scale = max(t.scale for t in types)
    precision = scale + max(t.precision - t.scale for t in types)
    if precision > MAX_PRECISION:
        return args
    both = decimal(precision, scale)
    return [a if a.type == both else Cast(a, both) for a in args]


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


def _regex(name: str, args: Sequence[Expr]) -> Expr:
    """A regular expression; a constant one is read now, and must be one."""
    text, pattern = args
    if name.startswith("regex_not_"):
        return call("not", _regex(name.replace("not_", ""), args))
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        try:
            to_re2(pattern.value)
        except ValueError as error:
            raise Refused(f"this regular expression: {error}", _OTHER_REGEX, *_SPELLINGS[name]) from None
    return call(name, text, pattern)


def _regexp_like(_: str, args: Sequence[Expr]) -> Expr:
    """Flags become part of the pattern."""
    text, pattern, *flags = args
    if flags:
        letters = flags[0].value if isinstance(flags[0], Literal) else None
        if not isinstance(letters, str) or not set(letters) <= set("imsU"):
            raise Refused("these flags of a regular expression", "use a constant of i, m, s and U", "regexp_like")
        start = Literal(f"(?{letters})" if letters else "", VARCHAR)
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            pattern = Literal(f"{start.value}{pattern.value}", VARCHAR)
        else:
            pattern = call("str_concat", start, pattern)
    return _regex("regex_match", (text, pattern))


def _round(name: str, args: Sequence[Expr]) -> Expr:
    """The type of a rounded decimal depends on how many places it is rounded to."""
    constant = args[1].value if len(args) > 1 and isinstance(args[1], Literal) else None
    places = int(constant) if constant is not None else None if len(args) > 1 else 0
    t = round_result(args[0].type, places)
    if t is None or any(a.type.kind not in (Kind.INTEGER, Kind.BIGINT) for a in args[1:]):
        raise refused(name, f" of ({', '.join(str(a.type) for a in args)})")
    return Call(name, tuple(args), t)


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


_OTHER_REGEX = "say it in another way; \\b may be (^|\\W) or (\\W|$)"
_FORMS: dict[str, Callable[[str, Sequence[Expr]], Expr]] = {
    "regex_match": _regex,
    "regex_imatch": _regex,
    "regex_not_match": _regex,
    "regex_not_imatch": _regex,
    "regexp_like": _regexp_like,
    "round": _round,
    "like": _like,
    "ilike": _like,
    "subtract": _subtract,
    "nullif": _nullif,
    "date_part": _date_function,
    "date_trunc": _date_function,
}
