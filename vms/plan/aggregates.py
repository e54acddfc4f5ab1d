"""Aggregates in an exported plan -> Group, in terms of plain groups.

DISTINCT: the values of an argument are grouped first, together with the group they are in; each then counts once.
Where plain aggregates or other DISTINCT arguments stand beside it, their rows are united with these groups, every row
with NULL in the columns of the others, which no aggregate counts. ROLLUP, CUBE and GROUPING SETS are one Group for
each set, united. All that is united reads the same relation (`Whole`), so that what is below is kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from substrait.algebra_pb2 import AggregateFunction

from vms.errors import InternalError
from vms.model.types import BIGINT, INTEGER, MAX_NARROW_PRECISION, Kind
from vms.plan.describe import describe_call
from vms.plan.distinct_on import is_distinct_on, read_distinct_on
from vms.plan.expr import Case, Cast, Expr, Literal
from vms.plan.functions import AGGREGATES, TRUTHS, VARIANCES, aggregate_type, may_be_null
from vms.plan.logical import Group, Rel, Whole, project, ref, union
from vms.plan.plan import Aggregate, Field
from vms.plan.refusals import Refused
from vms.plan.subqueries import Subqueries

#: DataFusion's names for ours.
_NAMES = {"var": "var_samp", "stddev": "stddev_samp"}
#: For which a value that occurs twice is no other than one that occurs once.
_IDEMPOTENT = frozenset({"min", "max", *TRUTHS})
_ONE = Literal(1, BIGINT)
#: The bits of DataFusion's number of a grouping set that fit our INTEGER.
_NARROW_BITS = 16


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call over the columns of one relation, and whether equal arguments count once."""

    call: Aggregate
    distinct: bool


def read_aggregate(x: Any, found: Subqueries, function: Callable[[int], str], *, lone: bool = False) -> Rel:
    """The groups of the relation that `found` reads over.

    Group columns, where there are grouping sets (also a `lone` one) the number that grouping() reads, and the results.
    """
    if is_distinct_on(x, function):
        return read_distinct_on(x, found, function)
    columns: list[Expr] = []

    def column(e: Expr) -> int:
        if e not in columns:
            columns.append(e)
        return columns.index(e)

    keys = [column(found.read(e)) for e in x.grouping_expressions]
    sets = [tuple(keys[i] for i in g.expression_references) for g in x.groupings] or [tuple(keys)]
    asked = [_read_call(m, found, function, column) for m in x.measures]
    below = project(found.rel, columns)
    if len(sets) == 1 and not lone:
        return _grouped(below, sets[0], asked)
    return _grouping_sets(Rel(Whole(), (below,), below.fields), sets, asked)


def _read_call(m: Any, found: Subqueries, function: Callable[[int], str], column: Callable[[Expr], int]) -> _Asked:
    written = function(m.measure.function_reference)
    name = _NAMES.get(written, written)
    if name not in AGGREGATES:
        raise Refused(f"the aggregate function {name}", f"use one of {', '.join(sorted(AGGREGATES))}", name)
    distinct = m.measure.invocation == AggregateFunction.AGGREGATION_INVOCATION_DISTINCT and name not in _IDEMPOTENT
    args = [found.read(a.value) for a in m.measure.arguments]
    if len(args) > 1:
        raise Refused(f"{name} with {len(args)} arguments", "aggregate one column at a time", name)
    arg = args[0] if args else None
    t = aggregate_type(name, None if arg is None else arg.type)
    if t is None:
        what = "*" if arg is None else arg.type
        raise Refused(f"{name} of {what}", "cast the argument to a number", name, written)
    if isinstance(arg, Cast) and _exactly(name, arg.arg):
        arg = arg.arg  # means and variances are made from exact sums and rounded once
    if m.HasField("filter"):
        arg = _filtered(found.read(m.filter), arg)
    if name == "count" and not distinct and (arg is None or not may_be_null(arg, found.rel.fields)):
        return _Asked(Aggregate("count", None, t), False)
    if arg is None:
        raise InternalError(f"the aggregate {name} has no argument")
    return _Asked(Aggregate(name, column(arg), t), distinct)


def _exactly(name: str, arg: Expr) -> bool:
    """Whether the aggregate of this argument, which was cast to DOUBLE, has exact sums."""
    if arg.type.kind in (Kind.INTEGER, Kind.BIGINT):
        return name == "avg" or name in VARIANCES
    return name in VARIANCES and arg.type.kind is Kind.DECIMAL and arg.type.precision <= MAX_NARROW_PRECISION


def _filtered(condition: Expr, arg: Expr | None) -> Expr:
    """The argument of rows that pass FILTER, NULL for others: no aggregate counts a NULL."""
    arg = _ONE if arg is None else arg
    return Case(((condition, arg),), None, arg.type)


def _grouped(below: Rel, group: Sequence[int], asked: Sequence[_Asked]) -> Rel:
    """The groups by columns of `below`, then a column for each call."""
    once = list(dict.fromkeys(a.call.arg for a in asked if a.distinct and a.call.arg is not None))
    if not once:
        return _group(below, tuple(group), [a.call for a in asked])
    size, plain = len(group), [a.call for a in asked if not a.distinct]
    beside = list(dict.fromkeys(c.arg for c in plain))
    if not beside and len(once) == 1:
        values = _group(below, (*group, once[0]), [])
        calls = [replace(a.call, arg=size) for a in asked]
        return _group(values, tuple(range(size)), calls)
    shared = below if isinstance(below.spec, Whole) else Rel(Whole(), (below,), below.fields)
    columns: list[tuple[int | None, bool]] = [*((c, False) for c in beside), *((c, True) for c in once)]
    names = [f"{'DISTINCT ' if distinct else ''}{_name(c, below)}" for c, distinct in columns]
    together = [list(range(len(beside)))] if beside else []
    arms = [
        _arm(shared, group, columns, names, own)
        for own in (*together, *([i] for i in range(len(beside), len(columns))))
    ]
    calls = [replace(a.call, arg=size + columns.index((a.call.arg, a.distinct))) for a in asked]
    return _group(union(arms), tuple(range(size)), calls)


def _arm(
    below: Rel,
    group: Sequence[int],
    columns: Sequence[tuple[int | None, bool]],
    names: Sequence[str],
    own: Sequence[int],
) -> Rel:
    """The group columns and `columns` of `below` (None: the number one), NULL in all but `own`."""
    types = [BIGINT if c is None else below.fields[c].type for c, _ in columns]
    shown: list[Expr] = [Literal(None, t) for t in types]
    keys = list(group)
    if columns[own[0]][1]:
        value, keys = columns[own[0]][0], list(range(len(group)))
        assert value is not None
        below = _group(below, (*group, value), [])
        shown[own[0]] = ref(below, len(group))
    else:
        for i in own:
            c = columns[i][0]
            shown[i] = _ONE if c is None else ref(below, c)
    exprs = [*(ref(below, g) for g in keys), *shown]
    return project(below, exprs, [*(below.fields[g].name for g in keys), *names])


def _name(column: int | None, rel: Rel) -> str:
    return "1" if column is None else rel.fields[column].name


def _group(below: Rel, group: tuple[int, ...], calls: Sequence[Aggregate]) -> Rel:
    calls = [
        replace(c, arg=None) if c.function == "count" and c.arg is not None and not below.fields[c.arg].nullable else c
        for c in calls
    ]
    fields = [below.fields[g] for g in group]
    fields += [Field(describe_call(c, below.fields), c.type, c.function != "count") for c in calls]
    return Rel(Group(group, tuple(calls)), (below,), tuple(fields))


def _grouping_sets(below: Rel, sets: Sequence[tuple[int, ...]], asked: Sequence[_Asked]) -> Rel:
    """All group columns, NULL in the sets that leave them out, the number that grouping() reads, the results."""
    every = list(dict.fromkeys(c for s in sets for c in s))
    again = [sets[:i].count(s) for i, s in enumerate(sets)]
    bits = len(every) + max(again).bit_length()
    number = INTEGER if bits <= _NARROW_BITS else BIGINT
    arms = []
    for s in sets:
        # a column that a set names twice groups once
        columns = tuple(dict.fromkeys(s))
        groups = _grouped(below, columns, asked)
        shown: list[Expr] = []
        left_out = 0
        for place, c in enumerate(every):
            there = c in columns
            shown.append(ref(groups, columns.index(c)) if there else Literal(None, below.fields[c].type))
            left_out |= 0 if there else 1 << (len(every) - 1 - place)
        calls = [ref(groups, i) for i in range(len(columns), groups.width)]
        names = [*(below.fields[c].name for c in every), "grouping", *(groups.fields[c.index].name for c in calls)]
        arms.append(project(groups, [*shown, Literal(left_out, number), *calls], names))
    return union(arms)
