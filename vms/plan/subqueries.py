"""Subqueries that stand in expressions: each becomes columns beside those of the relation that they are used over.

DataFusion turns what reads the query around it into joins; what is left here reads nothing of it, so it has one
value for all rows. Its one row is joined to every row of the relation, and the expression reads the column.

| subquery | its value |
|---|---|
| scalar | the one row's; NULL where there is none; an error of the view where there are more |
| `x IN (...)` | three-valued: true where one equals x; else NULL where x or one of a non-empty list is NULL |
| EXISTS | whether there is a row |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from substrait.algebra_pb2 import Expression
from substrait.algebra_pb2 import Rel as SubstraitRel

from vms.model.table import BaseTable
from vms.model.types import BIGINT, BOOLEAN
from vms.plan.expr import Call, Expr, Ref, map_refs, refs
from vms.plan.keys import key_of
from vms.plan.logical import NOTHING, Group, Rel, conjunction, conjuncts, pair, pick, project, ref, select, some_row
from vms.plan.membership import is_in
from vms.plan.plan import Aggregate, Field, JoinKind, Projection
from vms.plan.refusals import Refused
from vms.plan.substrait_exprs import ExprReader


class Subqueries:
    """Reads expressions over one relation. `rel` is that relation with the columns of the subqueries behind its own."""

    def __init__(
        self,
        rel: Rel,
        before: int,
        functions: Mapping[int, str],
        read_rel: Callable[[SubstraitRel], Rel],
        tables: Mapping[str, BaseTable],
    ) -> None:
        self.rel = rel
        #: The one-row relations that were added, each with its first column's place.
        self.added: list[tuple[int, Rel]] = []
        self._fields, self._before = rel.fields, before
        self._reader = ExprReader(functions, self._value)
        self._read_rel, self._tables = read_rel, tables

    def read(self, e: Any, fields: Sequence[Field] | None = None) -> Expr:
        """The expression over `rel` as it is afterwards.

        `fields` are the columns that it may name: those of `rel` unless given, as for a join, in which `before`
        columns stand before those of `rel`.
        """
        return self._reader.read(e, self._fields if fields is None else fields)

    def _value(self, x: Expression.Subquery, read: Callable[[Any], Expr]) -> Expr:
        kind = x.WhichOneof("subquery_type")
        if kind == "scalar":
            return self._add(one_value(self._read_rel(x.scalar.input), self._tables))[0]
        if kind == "set_predicate" and x.set_predicate.predicate_op == x.set_predicate.PREDICATE_OP_EXISTS:
            return self._add(some_row(self._read_rel(x.set_predicate.tuples)))[0]
        if kind == "in_predicate" and len(x.in_predicate.needles) == 1:
            return self._membership(read(x.in_predicate.needles[0]), self._read_rel(x.in_predicate.haystack))
        raise Refused("a subquery of this kind in an expression", "write it as a join", "( select")

    def _add(self, one_row: Rel) -> list[Ref]:
        """The columns of a relation of one row, joined to every row."""
        start = self.rel.width
        self.added.append((start, one_row))
        self.rel = one_row if self.rel is NOTHING else pair(self.rel, one_row, None)
        return [Ref(self._before + start + i, f.type) for i, f in enumerate(one_row.fields)]

    def _membership(self, needle: Expr, haystack: Rel) -> Expr:
        if self.rel is NOTHING or self._before:
            raise Refused("IN (SELECT ...) in this place", "move it into WHERE", "in ( select", "in")
        item = Ref(self.rel.width, haystack.fields[0].type)
        self.rel = is_in(self.rel, haystack, Call("equal", (needle, item), BOOLEAN))
        return ref(self.rel, self.rel.width - 1)


def one_value(rel: Rel, tables: Mapping[str, BaseTable]) -> Rel:
    """One row and column: the value of a scalar subquery."""
    if _always_one_row(rel):
        return rel
    field = rel.fields[0]
    value = Field(field.name, field.type)
    if key_of(rel, tables) == ():
        return Rel(Group((), (Aggregate("min", 0, field.type),)), (rel,), (value,))
    calls = (Aggregate("min", 0, field.type), Aggregate("count", None, BIGINT))
    group = Rel(Group((), calls), (rel,), (value, Field("rows", BIGINT, False)))
    return project(group, [Call("single", (ref(group, 0), ref(group, 1)), field.type)], [field.name])


def _always_one_row(rel: Rel) -> bool:
    while isinstance(rel.spec, Projection):
        rel = rel.input
    return isinstance(rel.spec, Group) and not rel.spec.group


def select_with(found: Subqueries, rel: Rel, condition: Expr) -> Rel:
    """The rows of `rel` for which a condition read by `found` is true.

    A part of the condition that reads one subquery alone becomes a semi join with its row: so the rows can be kept
    in the order of what is compared with it.
    """
    if rel is NOTHING:
        return select(found.rel, condition)
    rows, width = dict(found.added), rel.width
    start_of = {c: start for start, one in found.added for c in range(start, start + one.width)}
    plain: list[Expr] = []
    beside: list[tuple[int, Expr]] = []
    for c in conjuncts(condition):
        used = {start_of.get(i) for i in refs(c) if i >= width}
        start = used.pop() if len(used) == 1 else None
        if start is not None:
            beside.append((start, _moved_back(c, width, start - width)))
        elif not used:
            plain.append(c)
        else:
            return pick(select(found.rel, condition), range(width))
    own = conjunction(plain)
    result = rel if own is None else select(rel, own)
    for start, c in beside:
        result = pair(result, rows[start], c, JoinKind.SEMI)
    return result


def _moved_back(e: Expr, width: int, distance: int) -> Expr:
    """The expression with its columns from `width` on that far to the left."""
    return map_refs(e, lambda r: r if r.index < width else Ref(r.index - distance, r.type))
