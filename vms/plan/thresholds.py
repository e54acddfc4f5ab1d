"""Joins in which one value decides: rows match where they are on one side of the bound of their key.

`column OP bound`, with one bound for each key at most (or one for all rows), as in `x > (SELECT avg(x) ...)`. Rows that
are kept in the order of the column need no look at when the bound moves, but for those between the old and the new one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vms.model.types import Kind
from vms.plan.expr import Call, Expr, Ref, map_refs, refs
from vms.plan.logical import Rel, as_columns
from vms.plan.plan import Join, JoinKind

#: Each comparison with its sides changed.
_TURNED = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}


@dataclass(frozen=True, slots=True)
class Threshold:
    """Rows match where left column `column` is `operator` (lt, lte, gt, gte) right column `bound`."""

    column: int
    operator: str
    bound: int


def threshold(join: Join, left_width: int) -> Threshold | None:
    """How this join is decided by a bound, if it is."""
    sides = compared(join.residual, left_width)
    if sides is None or not join.single or join.kind.pairs:
        return None
    column, operator, bound = sides
    if not isinstance(column, Ref) or not isinstance(bound, Ref):
        return None
    return Threshold(column.index, operator, bound.index)


def compared(e: Expr | None, split: int) -> tuple[Expr, str, Expr] | None:
    """The sides of `left expression < right expression` and the like, each over its own input of a join."""
    if not isinstance(e, Call) or e.function not in _TURNED:
        return None
    for (a, b), operator in ((e.args, e.function), (e.args[::-1], _TURNED[e.function])):
        ordered = a.type == b.type and a.type.kind not in (Kind.VARCHAR, Kind.BOOLEAN)
        if ordered and refs(a) and refs(b) and max(refs(a)) < split <= min(refs(b)):
            return a, operator, map_refs(b, lambda r: Ref(r.index - split, r.type))
    return None


def with_threshold(rel: Rel, needed: set[int]) -> Rel:
    """The join with what is compared as columns, where a bound decides it; else as it is.

    An inner join of which no right column is `needed` is a semi join then. A column may be added behind those of
    the left input.
    """
    spec, (left, right) = rel.spec, rel.inputs
    assert isinstance(spec, Join)
    split = left.width
    semi = spec.kind is JoinKind.INNER and all(i < split for i in needed)
    sides = compared(spec.residual, split)
    if sides is None or not spec.single or (spec.kind.pairs and not semi):
        return rel
    column, operator, bound = sides
    left, (at,) = as_columns(left, [column])
    right, (there,) = as_columns(right, [bound])
    assert spec.residual is not None
    condition = Call(operator, (Ref(at, column.type), Ref(left.width + there, bound.type)), spec.residual.type)
    kind = JoinKind.SEMI if semi else spec.kind
    join = replace(spec, residual=condition, kind=kind)
    return Rel(join, (left, right), kind.fields(left.fields, right.fields))
