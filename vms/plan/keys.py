"""Which columns identify a row of a relation: from these the view's row key is made (design section 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vms.model.table import BaseTable
from vms.plan.expr import Expr
from vms.plan.logical import Group, Match, Nothing, Rel, View, carried, equal_columns
from vms.plan.plan import Join, JoinKind, Projection, Repetition, Source, TopK, Union, Window

#: Columns that always hold the same value: any one of them stands for all.
Equal = frozenset[int]


def key_of(rel: Rel, tables: Mapping[str, BaseTable]) -> tuple[Equal, ...] | None:
    """A key of the relation: no two rows agree in all components. None where no key is known.

    () is the key of a relation of at most one row.
    """
    spec = rel.spec
    match spec:
        case Source():
            table = tables[spec.table]
            if table.hidden_key or not set(table.key) <= set(spec.columns):
                return None
            return tuple(frozenset({spec.columns.index(k)}) for k in table.key)
        case View():
            return key_of(spec.root, tables)
        case Projection():
            below = key_of(rel.input, tables)
            return None if below is None else through(below, spec.exprs)
        case Group():
            return tuple(frozenset({i}) for i in range(len(spec.group)))
        case TopK(limit=1) | Nothing():
            return ()
        case Window():
            return key_of(rel.input, tables) or _numbered(spec, rel.input.width)
        case Match() | Join():
            return _joined_key(rel, tables)
        case Union() | Repetition():
            return None
    return key_of(rel.input, tables)


def _numbered(window: Window, width: int) -> tuple[Equal, ...] | None:
    """The partition and the number of the row in it, where rows are numbered."""
    for i, call in enumerate(window.calls):
        if call.function == "row_number":
            return tuple(frozenset({c}) for c in (*window.partition, width + i))
    return None


def through(components: Iterable[Equal], exprs: Sequence[Expr]) -> tuple[Equal, ...] | None:
    """The components as columns of a projection; None where one is no longer there in any of its columns."""
    places: dict[int, set[int]] = {}
    for i, e in enumerate(exprs):
        source = carried(e)
        if source is not None:
            places.setdefault(source, set()).add(i)
    result = [frozenset(p for column in c for p in places.get(column, ())) for c in components]
    return tuple(result) if all(result) else None


def merge_equal(components: Iterable[Equal], pairs: Sequence[tuple[int, int]]) -> tuple[Equal, ...]:
    """Components widened by columns known to be equal; those that became the same are kept once."""
    result: list[Equal] = []
    for c in components:
        grown = set(c)
        for _ in pairs:
            for a, b in pairs:
                if a in grown or b in grown:
                    grown |= {a, b}
        if not any(grown & r for r in result):
            result.append(frozenset(grown))
    return tuple(result)


def _joined_key(rel: Rel, tables: Mapping[str, BaseTable]) -> tuple[Equal, ...] | None:
    """Both keys together; where the join fixes one side's whole key, the other side's key alone.

    Columns that an inner join makes equal are not equal where an outer one has put NULLs.
    """
    assert isinstance(rel.spec, Match | Join)
    kind = rel.spec.kind
    left, right = (key_of(r, tables) for r in rel.inputs)
    if not kind.pairs:
        return left
    if left is None or right is None:
        return None
    shift = rel.inputs[0].width
    pairs = [(a, b + shift) for a, b in equal_columns(rel)]
    never_null = any(_never_null(r, k) for r, k in zip(rel.inputs, (left, right)))
    right = tuple(frozenset(c + shift for c in e) for e in right)
    if kind is JoinKind.FULL:
        # one key of only NULLs must not stand for a left row and for a right one
        return (*left, *right) if never_null else None
    same = pairs if kind is JoinKind.INNER else []
    if covers((b for _, b in pairs), right):
        return merge_equal(left, same)
    if kind is JoinKind.INNER and covers((a for a, _ in pairs), left):
        return merge_equal(right, same)
    return merge_equal((*left, *right), same)


def _never_null(rel: Rel, key: tuple[Equal, ...]) -> bool:
    """Whether a key of the relation never holds NULLs alone."""
    return any(not rel.fields[column].nullable for component in key for column in component)


def covers(columns: Iterable[int], components: Iterable[Equal]) -> bool:
    """Whether fixing `columns` fixes every component."""
    fixed = set(columns)
    return all(fixed & c for c in components)
