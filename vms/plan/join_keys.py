"""How the rows of a join meet: by keys that its condition makes equal, or because one side is everywhere.

Rows that meet by keys travel to the owner of their key. Where one side has at most one row, or has no key to meet by
and is small, it is replicated instead: every member holds all of it, and the rows of the other side stay where they
are (thesis chapter 4, Strategy 2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vms.model.table import BaseTable
from vms.model.types import BIGINT, BOOLEAN
from vms.plan.expr import Call, Case, Expr, Literal, Ref, refs
from vms.plan.keys import covers, key_of
from vms.plan.logical import (
    Group,
    Match,
    Rel,
    View,
    as_columns,
    as_equalities,
    conjunction,
    conjuncts,
    key_pair,
    moved,
    pick,
    project,
    ref,
    select,
    some_row,
)
from vms.plan.plan import Aggregate, Field, Join, JoinKind, Projection, Selection, Source, TopK, Union, Window
from vms.plan.refusals import Refused
from vms.plan.thresholds import compared

#: Expressions of the left and of the right side that are equal.
Pairs = list[tuple[Expr, Expr]]
#: Rows up to which a side may be replicated. Not higher: a change of one of its rows visits every row of the other
#: side, and every member holds it. Not lower: lists of prices, rates and places have thousands of rows.
SMALL = 10_000

#: Each comparison, and the one that is true where it is false.
_OPPOSITE = {"equal": "not_equal", "not_equal": "equal", "lt": "gte", "gte": "lt", "gt": "lte", "lte": "gt"}


def with_keys(rel: Rel, tables: Mapping[str, BaseTable]) -> Rel:
    """Every Match as a Join on key columns; key expressions are computed below it."""
    inputs = tuple(with_keys(i, tables) for i in rel.inputs)
    if not isinstance(rel.spec, Match):
        return replace(rel, inputs=inputs)
    left, right = inputs
    if rel.spec.kind is JoinKind.INNER and _better_turned(left, right, rel.spec.condition, tables):
        split, width = left.width, rel.width
        places = {i: i + width - split if i < split else i - split for i in range(width)}
        condition = None if rel.spec.condition is None else moved(rel.spec.condition, places)
        return pick(_join(right, left, Match(condition), tables), places.values())
    return _join(left, right, rel.spec, tables)


def _better_turned(left: Rel, right: Rel, condition: Expr | None, tables: Mapping[str, BaseTable]) -> bool:
    """Whether the left side of an inner join is the one to be replicated."""
    if _one_row(right, tables):
        return False
    return _one_row(left, tables) or (not _parts(condition, left, right)[0] and _smaller(left, right, tables))


def _join(left: Rel, right: Rel, match: Match, tables: Mapping[str, BaseTable]) -> Rel:
    kind = match.kind
    pairs, residual = _parts(match.condition, left, right)
    if not kind.pairs:
        right, pairs, residual = _asked(left, right, pairs, residual, tables)
    split, width = left.width, left.width + right.width
    replicated = _replicated(kind, bool(pairs), left, right, tables)
    left, left_keys = as_columns(left, [a for a, _ in pairs])
    right, right_keys = as_columns(right, [b for _, b in pairs])
    places = {i: i if i < split else i - split + left.width for i in range(width)}
    rest = conjunction([moved(c, places) for c in residual])
    key = key_of(right, tables)
    single = key is not None and covers(right_keys, key)
    fields = kind.fields(left.fields, right.fields)
    joined = Rel(Join(left_keys, right_keys, rest, kind, replicated, single), (left, right), fields)
    if kind is JoinKind.MARK:
        return pick(joined, [*range(split), left.width])
    return pick(joined, [places[i] for i in range(width if kind.pairs else split)])


def _parts(condition: Expr | None, left: Rel, right: Rel) -> tuple[Pairs, list[Expr]]:
    """The pairs of expressions that a condition makes equal, each over its own side, and the rest of it."""
    pairs: Pairs = []
    residual: list[Expr] = []
    both = left.fields + right.fields
    for c in (e for part in conjuncts(condition) for e in as_equalities(_told(part), left.width, both)):
        sides = key_pair(c, left.width)
        if sides is None:
            residual.append(c)
        elif sides not in pairs:
            pairs.append(sides)
    return pairs, residual


def _told(e: Expr) -> Expr:
    """What ANY and ALL say about a comparison, IS TRUE, IS FALSE or IS NULL, without that."""
    match e:
        case Call("is_not_distinct_from", (Call(op, args), Literal(bool(value)))) if op in _OPPOSITE:
            return Call(op if value else _OPPOSITE[op], args, BOOLEAN)
        case Call("is_null", (Call(op, args),)) if op in _OPPOSITE:
            nulls = tuple(Call("is_null", (a,), BOOLEAN) for a in args)
            return Call("or", nulls, BOOLEAN)
    return e


def _asked(
    left: Rel, right: Rel, pairs: Pairs, residual: list[Expr], tables: Mapping[str, BaseTable]
) -> tuple[Rel, Pairs, list[Expr]]:
    """The right side of a semi, anti or mark join as one row for each key, where that is all that is asked of it.

    Whether there is any row, or one whose value is above (below) that of the left row: so the highest (lowest) is.
    """
    split = left.width
    own = [c for c in residual if all(i >= split for i in refs(c))]
    here = [c for c in residual if c not in own and all(i < split for i in refs(c))]
    across = [c for c in residual if c not in own and c not in here]
    if own:
        right = select(right, conjunction([moved(c, _back(split, right)) for c in own]) or own[0])
    if not pairs and not across:
        return some_row(right), pairs, [*here, Ref(split, BOOLEAN)]
    if not pairs and len(across) == 1 and (halves := _halves(across[0], split)) is not None:
        ours, theirs = halves
        found = Call("or", (Ref(split, BOOLEAN), Call("and", (Ref(split + 1, BOOLEAN), ours), BOOLEAN)), BOOLEAN)
        return _some_and_any(right, moved(theirs, _back(split, right))), pairs, [*here, found]
    sides = compared(across[0], split) if len(across) == 1 and not here else None
    key = key_of(right, tables)
    columns = [b.index for _, b in pairs if isinstance(b, Ref)]
    if sides is None or (key is not None and covers(columns, key)):
        return right, pairs, here + across
    column, operator, value = sides
    size = len(pairs)
    below = project(right, [*(b for _, b in pairs), value])
    extreme = Aggregate("max" if operator in ("lt", "lte") else "min", size, value.type)
    fields = (*below.fields[:size], replace(below.fields[size], nullable=True))
    bound = Rel(Group(tuple(range(size)), (extreme,)), (below,), fields)
    condition = Call(operator, (column, Ref(split + size, value.type)), BOOLEAN)
    return bound, [(a, ref(bound, i)) for i, (a, _) in enumerate(pairs)], [condition]


def _halves(e: Expr, split: int) -> tuple[Expr, Expr] | None:
    """An OR of what is told by the left row alone and of what is told by the right one alone."""
    if isinstance(e, Call) and e.function == "or" and len(e.args) == 2:
        for a, b in (e.args, e.args[::-1]):
            if max(refs(a), default=0) < split <= min(refs(b), default=-1):
                return a, b
    return None


def _some_and_any(rel: Rel, condition: Expr) -> Rel:
    """One row: whether the condition is true for any row, and whether there is a row."""
    true = project(rel, [Case(((condition, Literal(1, BIGINT)),), None, BIGINT)])
    calls = (Aggregate("count", 0, BIGINT), Aggregate("count", None, BIGINT))
    counts = Rel(Group((), calls), (true,), tuple(Field(n, BIGINT, False) for n in ("true", "rows")))
    more = [Call("gt", (ref(counts, i), Literal(0, BIGINT)), BOOLEAN) for i in (0, 1)]
    return project(counts, more, ["any", "some"])


def _back(split: int, right: Rel) -> dict[int, int]:
    """The columns of the right input of a join as that input counts them."""
    return {split + i: i for i in range(right.width)}


def _replicated(kind: JoinKind, keys: bool, left: Rel, right: Rel, tables: Mapping[str, BaseTable]) -> bool:
    """Whether the right side is replicated. Without keys and with two small sides both may go to one place instead."""
    if kind is not JoinKind.FULL and _one_row(right, tables):
        return True
    if keys:
        return False
    small = most_rows(right, tables) is not None
    if kind is not JoinKind.FULL and small:
        return True
    if small and most_rows(left, tables) is not None:
        return False
    raise Refused(
        "a join without an equality between its two sides",
        f"add a condition like a.x = b.y between them, or declare the smaller table WITH (rows = N), N at most {SMALL}",
        "cross",
        "from",
    )


def _one_row(rel: Rel, tables: Mapping[str, BaseTable]) -> bool:
    """Whether the relation has one row at most."""
    return key_of(rel, tables) == ()


def _smaller(left: Rel, right: Rel, tables: Mapping[str, BaseTable]) -> bool:
    """Whether the left side is small, and the right one is not or larger."""
    rows, others = most_rows(left, tables), most_rows(right, tables)
    return rows is not None and (others is None or rows < others)


def most_rows(rel: Rel, tables: Mapping[str, BaseTable]) -> int | None:
    """How many rows a small relation has at most, as its tables are declared; None: it is not known to be small."""
    spec = rel.spec
    if isinstance(spec, Source):
        declared = tables[spec.table].rows_estimate
        return declared if declared is not None and declared <= SMALL else None
    if isinstance(spec, View):
        return most_rows(spec.root, tables)
    if _one_row(rel, tables):
        return 1
    if isinstance(spec, TopK) and spec.limit is not None and spec.limit <= SMALL:
        return spec.limit
    bounds = [most_rows(i, tables) for i in rel.inputs]
    known = [b for b in bounds if b is not None]
    if isinstance(spec, Union):
        return _at_most(sum(known)) if len(known) == len(bounds) else None
    if isinstance(spec, Join):
        if not spec.kind.pairs:
            return bounds[0]
        if spec.kind is not JoinKind.FULL and spec.single:
            return bounds[0]
        return _at_most(known[0] * known[1]) if len(known) == 2 and spec.kind is JoinKind.INNER else None
    if isinstance(spec, Selection | Projection | Group | TopK | Window):
        return bounds[0]
    return None


def _at_most(rows: int) -> int | None:
    return rows if rows <= SMALL else None
