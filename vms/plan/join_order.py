"""The order in which more than two relations are joined.

DataFusion's logical optimiser keeps the order of the text (it only avoids products of unrelated tables); row
counts move nothing before its physical planner, whose result cannot be exported. So the order is chosen here:
greedily, the two relations first whose join is smallest, then always the one that adds least. Small
intermediate results are what counts, because they are kept as state and travel between members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vms.model.table import BaseTable
from vms.plan.expr import Expr, Ref, refs
from vms.plan.keys import covers, key_of
from vms.plan.logical import (
    Group,
    Match,
    Rel,
    View,
    conjunction,
    conjuncts,
    equal_columns,
    is_inner,
    key_pair,
    moved,
    pair,
    pick,
    select,
)
from vms.plan.plan import Projection, Selection, Source, TopK, Union

#: Share of rows that a selection lets through; DataFusion assumes the same.
_PASSES = 0.2
#: Groups for each row. Less would hide that an aggregation can be large, more that it is the smaller side.
_GROUPS = 0.1
#: Matches of a row where neither side's key is covered by the join: above 1, so that such joins come late.
_FAN_OUT = 10.0


@dataclass(frozen=True)
class _Part:
    """A relation to be joined, with the columns of the whole cluster that it holds, in its order."""

    rel: Rel
    columns: tuple[int, ...]
    rows: float
    passed: float  # share of the base rows that selections inside let through


def order_joins(rel: Rel, tables: Mapping[str, BaseTable], rows: Mapping[str, int]) -> Rel:
    """The tree with every chain of joins in a good order; as it is where a table's size is not known."""
    if is_inner(rel):
        leaves: list[Rel] = []
        predicates: list[Expr] = []
        columns = _flatten(rel, leaves, predicates)
        leaves = [order_joins(leaf, tables, rows) for leaf in leaves]
        sizes = [_size(leaf, rows) for leaf in leaves]
        known = [s for s in sizes if s is not None]
        if len(leaves) > 2 and len(known) == len(leaves):
            parts, start = [], 0
            for leaf, (count, passed) in zip(leaves, known):
                columns_of = range(start, start + leaf.width)
                start += leaf.width
                parts.append(_Part(_with_own(leaf, columns_of, predicates), tuple(columns_of), count, passed))
            whole = _greedy(parts, predicates, tables)
            return pick(whole.rel, [whole.columns.index(c) for c in columns])
    return replace(rel, inputs=tuple(order_joins(i, tables, rows) for i in rel.inputs))


def _flatten(rel: Rel, leaves: list[Rel], predicates: list[Expr]) -> list[int]:
    """Collect the relations and conditions of nested joins; the output columns as numbers over all leaves."""
    spec = rel.spec
    if isinstance(spec, Match) and is_inner(rel):
        columns = [c for i in rel.inputs for c in _flatten(i, leaves, predicates)]
        predicates.extend(moved(c, dict(enumerate(columns))) for c in conjuncts(spec.condition))
        return columns
    if _over_match(rel):
        columns = _flatten(rel.input, leaves, predicates)
        if isinstance(spec, Selection):
            predicates.extend(moved(c, dict(enumerate(columns))) for c in conjuncts(spec.predicate))
        elif isinstance(spec, Projection):
            columns = [columns[e.index] for e in spec.exprs if isinstance(e, Ref)]
        return columns
    start = sum(leaf.width for leaf in leaves)
    leaves.append(rel)
    return list(range(start, start + rel.width))


def _with_own(leaf: Rel, columns: range, predicates: list[Expr]) -> Rel:
    """The relation behind those predicates that read no other."""
    places = {c: i for i, c in enumerate(columns)}
    own = conjunction([moved(p, places) for p in predicates if refs(p) <= set(columns)])
    return leaf if own is None else select(leaf, own)


def _over_match(rel: Rel) -> bool:
    """Whether only selections and projections that move columns stand between this relation and a join."""
    while isinstance(rel.spec, Selection) or (
        isinstance(rel.spec, Projection) and all(isinstance(e, Ref) for e in rel.spec.exprs)
    ):
        rel = rel.input
    return is_inner(rel)


def _size(rel: Rel, rows: Mapping[str, int]) -> tuple[float, float] | None:
    """Estimated rows, and the share of base rows among them that selections let through."""
    spec = rel.spec
    if isinstance(spec, Source):
        return (float(rows[spec.table]), 1.0) if spec.table in rows else None
    if isinstance(spec, View):
        return _size(spec.root, rows)
    sizes = [_size(i, rows) for i in rel.inputs]
    known = [s for s in sizes if s is not None]
    if len(known) < len(sizes):
        return None
    if isinstance(spec, Union):
        return sum(count for count, _ in known), max(passed for _, passed in known)
    count, passed = max(known)
    if isinstance(spec, Selection):
        return count * _PASSES, passed * _PASSES
    if isinstance(spec, Group):
        return (count * _GROUPS if spec.group else 1.0), 1.0
    if isinstance(spec, TopK) and spec.limit is not None:
        return min(count, float(spec.limit)), 1.0
    return count, passed


def _greedy(parts: list[_Part], predicates: list[Expr], tables: Mapping[str, BaseTable]) -> _Part:
    """Join all parts, always adding the one whose join is smallest. Ties keep the text's order."""

    def join(a: _Part, b: _Part) -> _Part:
        return _join(a, b, predicates, tables)

    starts = [(join(a, b), a, b) for i, a in enumerate(parts) for b in parts[i + 1 :]]
    whole, *used = min(starts, key=lambda s: s[0].rows)
    rest = [p for p in parts if p not in used]
    while rest:
        whole, taken = min(((join(whole, p), p) for p in rest), key=lambda o: o[0].rows)
        rest.remove(taken)
    return whole


def _join(a: _Part, b: _Part, predicates: list[Expr], tables: Mapping[str, BaseTable]) -> _Part:
    """The join of two parts on every predicate that needs both of them, with its estimated size."""
    columns = a.columns + b.columns
    inside, places = set(columns), {c: i for i, c in enumerate(columns)}
    here = [
        moved(p, places)
        for p in predicates
        if refs(p) <= inside and not refs(p) <= set(a.columns) and not refs(p) <= set(b.columns)
    ]
    rel = pair(a.rel, b.rel, conjunction(here))
    equal = equal_columns(rel)
    key_a, key_b = key_of(a.rel, tables), key_of(b.rel, tables)
    sizes = []
    if key_b is not None and covers((y for _, y in equal), key_b):
        sizes.append(a.rows * b.passed)
    if key_a is not None and covers((x for x, _ in equal), key_a):
        sizes.append(b.rows * a.passed)
    if not sizes:
        linked = any(key_pair(c, a.rel.width) for c in here)
        sizes.append(max(a.rows, b.rows) * _FAN_OUT if linked else float("inf"))
    return _Part(rel, columns, min(sizes), a.passed * b.passed)
