"""ORDER BY with LIMIT and OFFSET in an exported plan -> TopK.

A Sort alone orders nothing that is kept. Below a Fetch it tells which rows come first, also through projections in
between, which may drop the columns that are sorted by. Rows that ORDER BY leaves equal, and all rows where there is
none, are ordered by the columns of the SELECT, left to right, ascending, NULLs last: SQL leaves it open which of
them are taken, a view must always take the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from substrait.algebra_pb2 import Rel as SubstraitRel
from substrait.algebra_pb2 import SortField

from vms.model.order import SortKey
from vms.plan.expr import Expr, Literal, Ref, map_refs
from vms.plan.logical import Rel, project, ref
from vms.plan.plan import Field, Projection, TopK
from vms.plan.refusals import Refused

ReadRel = Callable[[SubstraitRel], Rel]
ReadExpr = Callable[[Any, Sequence[Field]], Expr]

#: (descending, NULLs first)
_DIRECTIONS = {
    SortField.SORT_DIRECTION_ASC_NULLS_FIRST: (False, True),
    SortField.SORT_DIRECTION_ASC_NULLS_LAST: (False, False),
    SortField.SORT_DIRECTION_DESC_NULLS_FIRST: (True, True),
    SortField.SORT_DIRECTION_DESC_NULLS_LAST: (True, False),
}


def read_sorts(sorts: Sequence[Any], columns: Sequence[int]) -> tuple[SortKey, ...]:
    """The keys of sort fields whose expressions are these columns; a column counts where it comes first."""
    keys: dict[int, SortKey] = {}
    for sort, column in zip(sorts, columns):
        if sort.direction not in _DIRECTIONS:
            raise Refused("an order without a direction", "write ASC or DESC", "order")
        keys.setdefault(column, SortKey(column, *_DIRECTIONS[sort.direction]))
    return tuple(keys.values())


def projected(x: Any, fields: Sequence[Field], read_expr: ReadExpr) -> list[Expr]:
    """The columns of a projection over an input with these columns.

    Substrait appends the expressions to the input's columns, then `emit` picks from both.
    """
    every = [*(Ref(i, f.type) for i, f in enumerate(fields)), *(read_expr(e, fields) for e in x.expressions)]
    return [every[i] for i in x.common.emit.output_mapping] if x.common.HasField("emit") else every


def read_fetch(x: Any, read_rel: ReadRel, read_expr: ReadExpr) -> Rel:
    """LIMIT and OFFSET over all that is below."""
    steps, sort = _down_to_sort(x)
    if sort is None:
        rel = read_rel(x.input)
        return Rel(_range(x, (), read_expr), (rel,), rel.fields)
    rel = read_rel(sort.input)
    keys: Sequence[Expr] = [read_expr(s.expr, rel.fields) for s in sort.sorts]
    shown: Sequence[Expr] = [ref(rel, i) for i in range(rel.width)]
    for step in steps:
        if hasattr(step, "expressions"):
            below = project(rel, shown).fields
            shown = _over(projected(step, below, read_expr), shown)
            continue
        rel = project(rel, dict.fromkeys([*shown, *keys]))
        assert isinstance(rel.spec, Projection)
        shown, keys = ([ref(rel, rel.spec.exprs.index(e)) for e in part] for part in (shown, keys))
        order = read_sorts(sort.sorts, [k.index for k in keys if isinstance(k, Ref)])
        rel = Rel(_range(step, order, read_expr), (rel,), rel.fields)
    return project(rel, shown)


def _over(upper: Sequence[Expr], lower: Sequence[Expr]) -> list[Expr]:
    """The upper expressions with the lower ones in the place of their columns."""
    return [map_refs(e, lambda r: lower[r.index]) for e in upper]


def _down_to_sort(x: Any) -> tuple[list[Any], Any | None]:
    """The Sort that tells the order of a Fetch, if there is one, and the steps from there up to the Fetch."""
    steps, rel = [x], x.input
    while (kind := rel.WhichOneof("rel_type")) in ("project", "fetch"):
        inner = getattr(rel, kind)
        if kind == "project" and any(e.WhichOneof("rex_type") == "window_function" for e in inner.expressions):
            break
        steps.append(inner)
        rel = inner.input
    return steps[::-1], rel.sort if kind == "sort" else None


def _range(x: Any, order: tuple[SortKey, ...], read_expr: ReadExpr) -> TopK:
    offset = _number(read_expr(x.offset_expr, ())) if x.HasField("offset_expr") else 0
    limit = _number(read_expr(x.count_expr, ())) if x.HasField("count_expr") else None
    return TopK(order, offset or 0, limit)


def _number(e: Expr) -> int | None:
    if isinstance(e, Literal) and e.value is None:
        return None
    if isinstance(e, Literal) and isinstance(e.value, int):
        return e.value
    raise Refused("a LIMIT that is no number", "write the number itself", "limit", "offset")
