"""INTERSECT and EXCEPT by counting: how often a row is on the left, and how often on the right.

DataFusion exports them as semi and anti joins in which every column of one side IS NOT DISTINCT FROM one of the
other. Counted, both sides are one state, a row of it for each distinct row. The ALL forms are as in the SQL
standard (and in DuckDB): INTERSECT ALL gives the smaller of both counts, EXCEPT ALL the difference. DataFusion
itself lets every copy of a left row pass or fail together; nothing in its plan tells its INTERSECT ALL from an
EXISTS that compares all columns, so the text must say which of the two it is (`Counted`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vms.model.table import BaseTable
from vms.model.types import BIGINT, BOOLEAN, Kind, SqlType
from vms.plan.expr import Call, Case, Cast, Expr, Literal, Ref
from vms.plan.keys import key_of
from vms.plan.logical import Group, Rel, conjuncts, pick, project, ref, repeat, select, union
from vms.plan.plan import Aggregate, Field
from vms.plan.refusals import Refused

_ZERO, _ONE = Literal(0, BIGINT), Literal(1, BIGINT)


@dataclass(frozen=True, slots=True)
class Counted:
    """What the text says: whether INTERSECT ALL and EXCEPT ALL stand in it, and EXISTS with IS NOT DISTINCT FROM.

    And whether IN with a subquery does (`member`), and EXISTS, ANY or ALL with one (`exists`); and what is to be
    refused where IN has three values (`lost`), and whether aggregates of one set are GROUPING SETS (`lone`).
    """

    intersect: bool = False
    excepted: bool = False
    null_safe: bool = False
    member: bool = False
    exists: bool = False
    lost: Refused | None = None
    lone: bool = False


def as_set_operation(
    left: Rel, right: Rel, condition: Expr | None, *, anti: bool, text: Counted, tables: Mapping[str, BaseTable]
) -> Rel | None:
    """The semi join (`anti`: anti join) as a set operation; None where it is none, or none that can be counted.

    Where no row stands twice on the left, a set operation and a join are the same, whatever the text says.
    """
    pairs = _pairs(condition, left.width, right.width)
    if pairs is None:
        return None
    distinct = _is_distinct(left) or key_of(left, tables) is not None
    if not distinct:
        if not (text.excepted if anti else text.intersect):
            return None
        if text.null_safe:
            raise Refused(
                f"{'EXCEPT' if anti else 'INTERSECT'} ALL beside EXISTS with IS NOT DISTINCT FROM",
                "write one of the two as a view of its own",
                "except" if anti else "intersect",
            )
    if not all(_one_to_one(a, left.fields[i].type) for i, (a, _) in enumerate(pairs)):
        if distinct:
            return None
        raise Refused("INTERSECT ALL or EXCEPT ALL of different types", "cast both sides to one type", "all")
    if distinct:
        left, right = _undo_distinct(left), _undo_distinct(right)
    counted = _counts(left, right, pairs)
    here, there = ref(counted, counted.width - 2), ref(counted, counted.width - 1)
    if distinct:
        wanted = _compare("equal" if anti else "gt", there, _ZERO)
        rows = select(counted, Call("and", (_compare("gt", here, _ZERO), wanted), BOOLEAN))
    else:
        rows = repeat(counted, _difference(here, there) if anti else _smaller(here, there))
    columns = [ref(rows, i) for i in range(left.width)]
    shown = [c if c.type == f.type else Cast(c, f.type) for c, f in zip(columns, left.fields)]
    return project(rows, shown, [f.name for f in left.fields])


def _pairs(condition: Expr | None, left: int, right: int) -> list[tuple[Expr, Expr]] | None:
    """For each left column its right partner, each as it is compared; None where this is no set operation."""
    found: dict[int, tuple[Expr, Expr, int]] = {}
    for c in conjuncts(condition):
        if not (isinstance(c, Call) and c.function == "is_not_distinct_from"):
            return None
        a, b = (_column(arg) for arg in c.args)
        if a is None or b is None or not (a < left <= b) or a in found:
            return None
        found[a] = c.args[0], _at(c.args[1], b - left), b - left
    if len(found) != left or {b for _, _, b in found.values()} != set(range(right)):
        return None
    return [found[i][:2] for i in range(left)]


def _column(e: Expr) -> int | None:
    """The column that is compared, as it is or cast."""
    inner = e.arg if isinstance(e, Cast) else e
    return inner.index if isinstance(inner, Ref) else None


def _at(e: Expr, index: int) -> Expr:
    if isinstance(e, Cast):
        return Cast(Ref(index, e.arg.type), e.type, e.safe)
    return Ref(index, e.type)


def _one_to_one(e: Expr, t: SqlType) -> bool:
    """Whether different values stay different when they are compared, so that the value can be told again."""
    if e.type == t or (t.kind is Kind.INTEGER and e.type.kind is Kind.BIGINT):
        return True
    whole = {Kind.INTEGER: 10, Kind.BIGINT: 19, Kind.DECIMAL: t.precision - t.scale}.get(t.kind)
    return (
        e.type.kind is Kind.DECIMAL
        and whole is not None
        and e.type.scale >= t.scale
        and e.type.precision - e.type.scale >= whole
    )


def _is_distinct(rel: Rel) -> bool:
    return isinstance(rel.spec, Group) and not rel.spec.calls


def _undo_distinct(rel: Rel) -> Rel:
    """The rows below a DISTINCT: that there is one is all that is asked."""
    return pick(rel.input, rel.spec.group) if isinstance(rel.spec, Group) and not rel.spec.calls else rel


def _counts(left: Rel, right: Rel, pairs: list[tuple[Expr, Expr]]) -> Rel:
    """Every row of either side once, then how often it is on the left and on the right."""
    size = len(pairs)
    names = [*(f.name for f in left.fields), "left", "right"]
    sides = (
        project(left, [*(a for a, _ in pairs), _ONE, _ZERO], names),
        project(right, [*(b for _, b in pairs), _ZERO, _ONE], names),
    )
    rows = union(sides)
    calls = (Aggregate("sum", size, BIGINT), Aggregate("sum", size + 1, BIGINT))
    fields = (*rows.fields[:size], Field("left", BIGINT, False), Field("right", BIGINT, False))
    return Rel(Group(tuple(range(size)), calls), (rows,), fields)


def _compare(function: str, a: Expr, b: Expr) -> Expr:
    return Call(function, (a, b), BOOLEAN)


def _smaller(a: Expr, b: Expr) -> Expr:
    return Case(((_compare("lt", a, b), a),), b, BIGINT)


def _difference(a: Expr, b: Expr) -> Expr:
    return Case(((_compare("gt", a, b), Call("subtract", (a, b), BIGINT)),), _ZERO, BIGINT)
