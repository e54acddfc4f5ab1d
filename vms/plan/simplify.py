"""From a tree that says what to compute to one that computes no more than that.

Three passes, in this order: conditions become join keys, columns that nobody reads are dropped, and
neighbouring operations are merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vms.model.table import BaseTable
from vms.plan.expr import Call, Expr, Ref, children, map_refs, refs
from vms.plan.join_keys import with_keys
from vms.plan.logical import (
    Group,
    Rel,
    View,
    Whole,
    moved,
    pick,
    project,
    ref,
    repeat,
    select,
    union,
)
from vms.plan.plan import Aggregate, Join, JoinKind, Projection, Repetition, Selection, Source, TopK, Union, Window
from vms.plan.thresholds import with_threshold

#: Nodes of all expressions of a merged projection. Equal parts are evaluated once, so a larger one costs
#: nothing at run time; the limit stops definitions that double at each level from growing without bound.
_INLINE_LIMIT = 2000


def simplify(rel: Rel, tables: Mapping[str, BaseTable]) -> Rel:
    """The same relation, as few and as narrow operations as the passes find."""
    width = rel.width
    pruned, places = _prune(with_keys(rel, tables), set(range(width)))
    return _tidy(pick(pruned, [places[i] for i in range(width)]))


# --- columns


def _prune(rel: Rel, needed: set[int]) -> tuple[Rel, dict[int, int]]:
    """The relation with at least the `needed` columns, and where each of them now is."""
    spec = rel.spec
    match spec:
        case Source():
            kept = sorted(needed)
            source = Source(spec.table, tuple(spec.columns[i] for i in kept))
            return Rel(source, (), tuple(rel.fields[i] for i in kept)), _positions(kept)
        case View():
            return rel, _positions(list(range(rel.width)))
        case Selection():
            below, places = _prune(rel.input, needed | refs(spec.predicate))
            return select(below, moved(spec.predicate, places)), places
        case Projection():
            kept = sorted(needed)
            below, places = _prune(rel.input, set().union(*(refs(spec.exprs[i]) for i in kept)))
            exprs = [moved(spec.exprs[i], places) for i in kept]
            return project(below, exprs, [rel.fields[i].name for i in kept]), _positions(kept)
        case Repetition():
            below, places = _prune(rel.input, needed | refs(spec.times))
            return repeat(below, moved(spec.times, places)), places
        case Union():
            kept = sorted(needed)
            sides = [(_prune(side, needed)) for side in rel.inputs]
            return union([pick(side, [places[i] for i in kept]) for side, places in sides]), _positions(kept)
        case Whole():
            every = range(rel.width)
            below, places = _prune(rel.input, set(every))
            return pick(below, [places[i] for i in every]), _positions(list(every))
        case Group():
            return _prune_group(rel, spec, needed)
        case Join():
            return _prune_join(rel, needed)
        case TopK():
            return _prune_top_k(rel, spec, needed)
        case Window():
            return _prune_window(rel, spec, needed)
    raise TypeError(spec)


def _positions(kept: list[int]) -> dict[int, int]:
    return {old: new for new, old in enumerate(kept)}


def _prune_group(rel: Rel, spec: Group, needed: set[int]) -> tuple[Rel, dict[int, int]]:
    """Group columns stay, since they decide how many rows there are; calls that nobody reads go."""
    size = len(spec.group)
    kept = [i for i in range(rel.width) if i < size or i in needed]
    calls = [spec.calls[i - size] for i in kept[size:]]
    below, places = _prune(rel.input, {*spec.group, *(c.arg for c in calls if c.arg is not None)})
    group = Group(tuple(places[g] for g in spec.group), tuple(_moved_call(c, places) for c in calls))
    return Rel(group, (below,), tuple(rel.fields[i] for i in kept)), _positions(kept)


def _moved_call(c: Aggregate, places: dict[int, int]) -> Aggregate:
    return c if c.arg is None else replace(c, arg=places[c.arg])


def _prune_join(rel: Rel, needed: set[int]) -> tuple[Rel, dict[int, int]]:
    """Each side brings exactly what is read of it: its rows are kept as state and may travel."""
    before = rel.inputs[0].width
    rel = with_threshold(rel, needed)
    assert isinstance(rel.spec, Join)
    spec, split, marked = rel.spec, rel.inputs[0].width, rel.spec.kind is JoinKind.MARK
    read = needed - {before} if marked else needed
    read = read | (refs(spec.residual) if spec.residual is not None else set())
    wanted = (
        {*spec.left_keys, *(i for i in read if i < split)},
        {*spec.right_keys, *(i - split for i in read if i >= split)},
    )
    sides, found = [], []
    for side, columns in zip(rel.inputs, wanted):
        below, places = _prune(side, columns)
        sides.append(pick(below, [places[c] for c in sorted(columns)]))
        found.append(_positions(sorted(columns)))
    left, right = sides
    places = {**found[0], **{i + split: p + left.width for i, p in found[1].items()}}
    join = Join(
        tuple(found[0][k] for k in spec.left_keys),
        tuple(found[1][k] for k in spec.right_keys),
        None if spec.residual is None else moved(spec.residual, places),
        spec.kind,
        spec.replicated,
        spec.single,
    )
    if marked:
        places = {**found[0], before: left.width}
    return Rel(join, (left, right), spec.kind.fields(left.fields, right.fields)), places


def _prune_top_k(rel: Rel, spec: TopK, needed: set[int]) -> tuple[Rel, dict[int, int]]:
    """Exactly what is read or sorted by: every column of the input takes part in breaking ties."""
    wanted = sorted(needed | {k.column for k in spec.order})
    below, places = _prune(rel.input, set(wanted))
    below, places = pick(below, [places[c] for c in wanted]), _positions(wanted)
    order = tuple(replace(k, column=places[k.column]) for k in spec.order)
    return Rel(replace(spec, order=order), (below,), below.fields), places


def _prune_window(rel: Rel, spec: Window, needed: set[int]) -> tuple[Rel, dict[int, int]]:
    """Calls that nobody reads go; else exactly what is read, as every column takes part in breaking ties."""
    width = rel.input.width
    calls = [c for i, c in enumerate(spec.calls) if i + width in needed]
    if not calls:
        return _prune(rel.input, needed)
    used = {*spec.partition, *(k.column for k in spec.order), *(c.arg for c in calls if c.arg is not None)}
    wanted = sorted(used | {c for c in needed if c < width})
    below, places = _prune(rel.input, set(wanted))
    below, places = pick(below, [places[c] for c in wanted]), _positions(wanted)
    window = Window(
        tuple(places[p] for p in spec.partition),
        tuple(replace(k, column=places[k.column]) for k in spec.order),
        tuple(c if c.arg is None else replace(c, arg=places[c.arg]) for c in calls),
    )
    kept = sorted(i for i in needed if i >= width)
    fields = below.fields + tuple(rel.fields[i] for i in kept)
    return Rel(window, (below,), fields), {**places, **{i: below.width + n for n, i in enumerate(kept)}}


# --- neighbours


def _tidy(rel: Rel) -> Rel:
    """Merge projections and selections that follow each other, and drop projections that change nothing."""
    rel = replace(rel, inputs=tuple(_tidy(i) for i in rel.inputs))
    spec = rel.spec
    if isinstance(spec, Projection):
        below = rel.input
        if isinstance(below.spec, Projection) and _small_enough(spec.exprs, below.spec.exprs):
            inner = below.spec.exprs
            exprs = tuple(map_refs(e, lambda r: inner[r.index]) for e in spec.exprs)
            return _tidy(Rel(Projection(exprs), below.inputs, rel.fields))
        if spec.exprs == tuple(ref(below, i) for i in range(below.width)):
            return replace(below, fields=rel.fields)
    if isinstance(spec, Selection) and isinstance(rel.input.spec, Selection):
        both = Call("and", (rel.input.spec.predicate, spec.predicate), spec.predicate.type)
        return select(rel.input.input, both)
    if isinstance(spec, Group) and isinstance(rel.input.spec, Projection):
        exprs = rel.input.spec.exprs
        if all(isinstance(e, Ref) for e in exprs):
            places = {i: e.index for i, e in enumerate(exprs) if isinstance(e, Ref)}
            group = Group(tuple(places[g] for g in spec.group), tuple(_moved_call(c, places) for c in spec.calls))
            return Rel(group, rel.input.inputs, rel.fields)
    return rel


def _small_enough(upper: tuple[Expr, ...], lower: tuple[Expr, ...]) -> bool:
    """Whether the lower expressions, put into the upper ones, stay within the limit."""
    return sum(_size(e, lower) for e in upper) <= _INLINE_LIMIT


def _size(e: Expr, inner: tuple[Expr, ...] = ()) -> int:
    """Nodes of the expression, with `inner` in the place of its columns."""
    if isinstance(e, Ref) and inner:
        return _size(inner[e.index])
    return 1 + sum(_size(c, inner) for c in children(e))
