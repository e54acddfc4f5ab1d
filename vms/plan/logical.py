"""The tree between Substrait and the maintenance plan: what is computed, not yet where.

`Source`, `Selection`, `Projection`, `Join`, `Union`, `Repetition`, `TopK` and `Window` are those of the plan.
`Match` is a join whose condition is not yet split into keys, `Group` an aggregation not yet split into its local and
its final half, `View` another view that is read, `Whole` a relation of which all columns are wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vms.model.types import BIGINT, BOOLEAN, Kind
from vms.plan.describe import describe_expr
from vms.plan.expr import Call, Cast, Expr, Literal, Ref, map_refs, refs
from vms.plan.functions import may_be_null
from vms.plan.plan import (
    Aggregate,
    Field,
    Join,
    JoinKind,
    Projection,
    Repetition,
    Selection,
    Source,
    TopK,
    Union,
    Window,
)

#: A value of each kind whose code is not simply 0.
_SOME_VALUE: dict[Kind, str | bool | float] = {Kind.VARCHAR: "", Kind.BOOLEAN: False, Kind.DOUBLE: 0.0}


@dataclass(frozen=True, slots=True)
class Match:
    """Join on a condition over the columns of the left input, then of the right (None: all pairs match)."""

    condition: Expr | None
    kind: JoinKind = JoinKind.INNER


@dataclass(frozen=True, slots=True)
class Group:
    """Output: the `group` columns of the input, then one column for each call."""

    group: tuple[int, ...]
    calls: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class View:
    """All rows of a registered view, computed by `root`. No pass looks inside: so its operations stay the same, and
    are those of the view itself."""

    name: str
    root: Rel


@dataclass(frozen=True, slots=True)
class Nothing:
    """One row without columns: what a SELECT without FROM reads. No plan holds it."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The input with all of its columns: those who read different ones of it read one and the same relation."""


@dataclass(frozen=True)
class Rel:
    """One relation: what it does, what it reads, and its columns."""

    spec: (
        Source
        | View
        | Selection
        | Projection
        | Join
        | Match
        | Union
        | Repetition
        | Group
        | TopK
        | Window
        | Nothing
        | Whole
    )
    inputs: tuple[Rel, ...]
    fields: tuple[Field, ...]

    @property
    def width(self) -> int:
        return len(self.fields)

    @property
    def input(self) -> Rel:
        return self.inputs[0]


NOTHING = Rel(Nothing(), (), ())


def select(rel: Rel, predicate: Expr) -> Rel:
    return Rel(Selection(predicate), (rel,), rel.fields)


def project(rel: Rel, exprs: Iterable[Expr], names: Sequence[str] | None = None) -> Rel:
    """The expressions over `rel`. Without `names`, columns are called what they say in SQL."""
    exprs = tuple(exprs)
    if names is None:
        names = [rel.fields[e.index].name if isinstance(e, Ref) else describe_expr(e, rel.fields) for e in exprs]
    fields = tuple(Field(n, e.type, may_be_null(e, rel.fields)) for n, e in zip(names, exprs, strict=True))
    return Rel(Projection(exprs), (rel,), fields)


def pair(left: Rel, right: Rel, condition: Expr | None, kind: JoinKind = JoinKind.INNER) -> Rel:
    return Rel(Match(condition, kind), (left, right), kind.fields(left.fields, right.fields))


def turned_pair(left: Rel, right: Rel, condition: Expr | None, kind: JoinKind) -> Rel:
    """The join with right as its left input; where it has both sides' columns, they stand as they were."""
    split, width = left.width, left.width + right.width
    places = {i: i + right.width if i < split else i - split for i in range(width)}
    rel = pair(right, left, None if condition is None else moved(condition, places), kind)
    return pick(rel, places.values()) if kind.pairs else rel


def is_inner(rel: Rel) -> bool:
    """Whether the relation is an inner join that may change places with others."""
    return isinstance(rel.spec, Match) and rel.spec.kind is JoinKind.INNER


def union(inputs: Sequence[Rel]) -> Rel:
    """The rows of all inputs; columns are called as in the first one."""
    columns = zip(*(i.fields for i in inputs), strict=True)
    fields = tuple(Field(fs[0].name, fs[0].type, any(f.nullable for f in fs)) for fs in columns)
    return Rel(Union(), tuple(inputs), fields)


def repeat(rel: Rel, times: Expr) -> Rel:
    return Rel(Repetition(times), (rel,), rel.fields)


def some_row(rel: Rel) -> Rel:
    """One row: whether there is a row."""
    rows = Rel(Group((), (Aggregate("count", None, BIGINT),)), (rel,), (Field("rows", BIGINT, False),))
    return project(rows, [Call("gt", (ref(rows, 0), Literal(0, BIGINT)), BOOLEAN)], ["some"])


def ref(rel: Rel, index: int) -> Ref:
    return Ref(index, rel.fields[index].type)


def pick(rel: Rel, columns: Iterable[int]) -> Rel:
    """Only these columns, in this order; the relation itself where that changes nothing."""
    columns = list(columns)
    if columns == list(range(rel.width)):
        return rel
    return project(rel, [ref(rel, c) for c in columns])


def as_columns(rel: Rel, exprs: list[Expr]) -> tuple[Rel, tuple[int, ...]]:
    """The relation with a column for each expression, and where these columns are."""
    columns: list[Expr] = [ref(rel, i) for i in range(rel.width)]
    for e in exprs:
        if e not in columns:
            columns.append(e)
    if len(columns) > rel.width:
        rel = project(rel, columns)
    return rel, tuple(columns.index(e) for e in exprs)


def moved(e: Expr, to: dict[int, int]) -> Expr:
    """The expression with column i read from position to[i]."""
    return map_refs(e, lambda r: Ref(to[r.index], r.type))


def carried(e: Expr) -> int | None:
    """The input column whose values and hashes this expression passes on unchanged, if it is one.

    INTEGER widened to BIGINT keeps its code (vms/model/types.py), so it stays where it is spread.
    """
    if isinstance(e, Ref):
        return e.index
    if (
        isinstance(e, Cast)
        and isinstance(e.arg, Ref)
        and e.arg.type.kind is Kind.INTEGER
        and e.type.kind is Kind.BIGINT
    ):
        return e.arg.index
    return None


def conjuncts(e: Expr | None) -> list[Expr]:
    """The parts of an AND, in order; NULL and false reject a row alike, so each may be tested on its own."""
    if e is None or e == Literal(True, BOOLEAN):
        return []
    if isinstance(e, Call) and e.function == "and":
        return [c for a in e.args for c in conjuncts(a)]
    return [e]


def conjunction(parts: Sequence[Expr]) -> Expr | None:
    """The AND of `parts` as pairs, leaning left; None where there is none."""
    result: Expr | None = None
    for p in parts:
        result = p if result is None else Call("and", (result, p), BOOLEAN)
    return result


def key_pair(c: Expr, split: int) -> tuple[Expr, Expr] | None:
    """The two sides of `left expression = right expression`, each over its own input of a join.

    `split`: the number of columns of the left input.
    """
    if not (isinstance(c, Call) and c.function == "equal"):
        return None
    for a, b in (c.args, c.args[::-1]):
        if refs(a) and refs(b) and max(refs(a)) < split <= min(refs(b)):
            return a, map_refs(b, lambda r: Ref(r.index - split, r.type))
    return None


def as_equalities(c: Expr, split: int, fields: Sequence[Field]) -> list[Expr]:
    """`a IS NOT DISTINCT FROM b` between the inputs of a join as equalities, which can be its key; others as is.

    Where NULLs may occur: both or none is NULL, and the values are equal with one value in the place of NULL.
    """
    if not (isinstance(c, Call) and c.function == "is_not_distinct_from"):
        return [c]
    if key_pair(Call("equal", c.args, BOOLEAN), split) is None:
        return [c]
    if not any(may_be_null(a, fields) for a in c.args):
        return [Call("equal", c.args, BOOLEAN)]
    t = c.args[0].type
    some = Literal(_SOME_VALUE.get(t.kind, 0), t)
    nulls = tuple(Call("is_null", (a,), BOOLEAN) for a in c.args)
    values = tuple(Call("coalesce", (a, some), t) for a in c.args)
    return [Call("equal", values, BOOLEAN), Call("equal", nulls, BOOLEAN)]


def equal_columns(rel: Rel) -> list[tuple[int, int]]:
    """Pairs (left column, right column) that a join makes equal, each counted in its own input."""
    if isinstance(rel.spec, Join):
        return list(zip(rel.spec.left_keys, rel.spec.right_keys))
    pairs = []
    if isinstance(rel.spec, Match):
        for c in conjuncts(rel.spec.condition):
            sides = [carried(side) for side in key_pair(c, rel.inputs[0].width) or ()]
            if len(sides) == 2 and sides[0] is not None and sides[1] is not None:
                pairs.append((sides[0], sides[1]))
    return pairs
