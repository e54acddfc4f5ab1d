"""Expressions over the columns of one input: plain data, evaluated by `vms.maintenance.expressions`.

Function names are Substrait's (`add`, `subtract`, `multiply`, `lt`, `and`, `is_null`, ...). Every node knows
its result type, which is DataFusion's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from vms.model.types import SqlType


@dataclass(frozen=True, slots=True)
class Ref:
    """Column `index` of the input."""

    index: int
    type: SqlType


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: int, str, bool, float, or None for NULL. Decimals, dates, timestamps as their integer code."""

    value: int | str | bool | float | None
    type: SqlType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the arguments."""

    function: str
    args: tuple[Expr, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class Cast:
    """The argument as another type; with `safe`, NULL where that is impossible."""

    arg: Expr
    type: SqlType
    safe: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """The first `then` whose `when` is true, else `otherwise` (None: NULL)."""

    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None
    type: SqlType


@dataclass(frozen=True, slots=True)
class InList:
    """Whether the argument equals one of the options, with SQL's rule for NULL."""

    arg: Expr
    options: tuple[Expr, ...]
    type: SqlType


Expr = Ref | Literal | Call | Cast | Case | InList


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions."""
    match e:
        case Call():
            return e.args
        case Cast():
            return (e.arg,)
        case Case():
            flat = tuple(x for pair in e.branches for x in pair)
            return flat if e.otherwise is None else (*flat, e.otherwise)
        case InList():
            return (e.arg, *e.options)
    return ()


def map_refs(e: Expr, f: Callable[[Ref], Expr]) -> Expr:
    """The expression with every `Ref` replaced by f(ref)."""
    match e:
        case Ref():
            return f(e)
        case Call():
            return replace(e, args=tuple(map_refs(a, f) for a in e.args))
        case Cast():
            return replace(e, arg=map_refs(e.arg, f))
        case Case():
            return replace(
                e,
                branches=tuple((map_refs(w, f), map_refs(t, f)) for w, t in e.branches),
                otherwise=None if e.otherwise is None else map_refs(e.otherwise, f),
            )
        case InList():
            return replace(e, arg=map_refs(e.arg, f), options=tuple(map_refs(o, f) for o in e.options))
    return e


def refs(e: Expr) -> set[int]:
    """The columns that the expression reads."""
    if isinstance(e, Ref):
        return {e.index}
    return set().union(*(refs(c) for c in children(e))) if children(e) else set()
