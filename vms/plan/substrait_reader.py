"""Substrait relations -> the logical tree (design section 4). Everything not read here is refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from substrait.algebra_pb2 import JoinRel, SetRel
from substrait.algebra_pb2 import Rel as SubstraitRel
from substrait.plan_pb2 import Plan

from vms.errors import InternalError
from vms.model.table import BaseTable
from vms.plan.aggregates import read_aggregate
from vms.plan.expr import Expr
from vms.plan.limits import projected, read_fetch
from vms.plan.logical import NOTHING, Match, Rel, pair, pick, project, turned_pair, union
from vms.plan.membership import is_in, name_of, not_in, null_aware
from vms.plan.plan import Field, JoinKind, Source
from vms.plan.refusals import Refused
from vms.plan.set_operations import Counted, as_set_operation
from vms.plan.subqueries import Subqueries, select_with
from vms.plan.substrait_exprs import ExprReader
from vms.plan.window_text import CallText
from vms.plan.windows import WindowReader, is_window

_JOINS = {
    JoinRel.JOIN_TYPE_INNER: JoinKind.INNER,
    JoinRel.JOIN_TYPE_LEFT: JoinKind.LEFT,
    JoinRel.JOIN_TYPE_OUTER: JoinKind.FULL,
    JoinRel.JOIN_TYPE_LEFT_SEMI: JoinKind.SEMI,
    JoinRel.JOIN_TYPE_LEFT_ANTI: JoinKind.ANTI,
    JoinRel.JOIN_TYPE_LEFT_MARK: JoinKind.MARK,
}
#: Those that are one of the others with its sides changed.
_TURNED = {
    JoinRel.JOIN_TYPE_RIGHT: JoinKind.LEFT,
    JoinRel.JOIN_TYPE_RIGHT_SEMI: JoinKind.SEMI,
    JoinRel.JOIN_TYPE_RIGHT_ANTI: JoinKind.ANTI,
    JoinRel.JOIN_TYPE_RIGHT_MARK: JoinKind.MARK,
}


@dataclass(frozen=True)
class ReadPlan:
    """The tree, the names of its columns, and whether an ORDER BY was left out of it."""

    root: Rel
    names: tuple[str, ...]
    ordered: bool


def read_plan(
    plan_bytes: bytes,
    tables: Mapping[str, BaseTable],
    views: Mapping[str, Rel],
    text: Counted,
    windows: Sequence[Sequence[CallText]] = (),
    described: Sequence[str] = (),
) -> ReadPlan:
    """The logical tree of an exported plan over these tables and views.

    `text`, `windows` and `described`, the lines of DataFusion's own text of the plan, tell what the export does not.
    """
    plan = Plan()
    plan.ParseFromString(plan_bytes)
    functions = {x.extension_function.function_anchor: x.extension_function.name for x in plan.extensions}
    root = plan.relations[0].root
    reader = _Reader(functions, tables, views, text, windows, null_aware(plan, described))
    rel = reader.read(root.input)
    if _reads_nothing(rel):
        raise _no_table()
    return ReadPlan(rel, tuple(root.names), reader.ordered)


class _Reader:
    def __init__(
        self,
        functions: Mapping[int, str],
        tables: Mapping[str, BaseTable],
        views: Mapping[str, Rel],
        text: Counted,
        windows: Sequence[Sequence[CallText]],
        null_aware_joins: frozenset[bytes],
    ) -> None:
        self._null_aware = null_aware_joins
        self._functions, self._exprs = functions, ExprReader(functions)
        self._tables, self._views, self._text, self._windows = tables, views, text, list(windows)
        self.ordered = False

    def read(self, r: SubstraitRel) -> Rel:
        """One relation and all below it."""
        kind = r.WhichOneof("rel_type")
        x = getattr(r, kind)
        match kind:
            case "read":
                rel = self._read(x)
            case "filter":
                rel = self.read(x.input)
                found = self._over(rel)
                rel = select_with(found, rel, found.read(x.condition))
            case "project":
                return self._project(x)
            case "join":
                rel = self._join(x)
            case "cross":
                rel = _crossed(self.read(x.left), self.read(x.right))
            case "aggregate":
                rel = read_aggregate(x, self._over(self.read(x.input)), self._exprs.function, lone=self._text.lone)
            case "sort":
                self.ordered = True
                rel = self.read(x.input)
            case "fetch":
                rel = read_fetch(x, self.read, self._exprs.read)
            case "set":
                if x.op != SetRel.SET_OP_UNION_ALL:
                    raise InternalError(f"a set operation was exported as {SetRel.SetOp.Name(x.op)}")
                rel = union([self.read(i) for i in x.inputs])
            case _:
                raise Refused(f"an operation of kind {kind}", "use SELECT with joins and GROUP BY")
        if x.common.HasField("emit"):
            rel = pick(rel, x.common.emit.output_mapping)
        return rel

    def _read(self, x: Any) -> Rel:
        kind = x.WhichOneof("read_type")
        if kind == "virtual_table" and len(x.virtual_table.expressions) == 1 and not x.base_schema.names:
            return NOTHING
        if kind == "virtual_table" and not x.virtual_table.expressions:
            raise Refused("a condition that is never true", "the view would always be empty", "where", "having", "on")
        if kind != "named_table":
            raise _no_table()
        name = x.named_table.names[-1]
        if x.HasField("filter"):
            raise InternalError(f"a filter was pushed into the scan of {name}")
        chosen = [i.field for i in x.projection.select.struct_items] if x.HasField("projection") else None
        if name in self._views:
            view = self._views[name]
            return view if chosen is None else pick(view, chosen)
        table = self._tables.get(name)
        if table is None:
            raise Refused(f"reading {name}", "read declared tables only", name.split("(")[0])
        columns = list(table.visible_columns)
        if chosen is not None:
            columns = [columns[i] for i in chosen]
        fields = tuple(Field(c.name, c.type, c.nullable and c.name not in table.key) for c in columns)
        return Rel(Source(name, tuple(c.name for c in columns)), (), fields)

    def _project(self, x: Any) -> Rel:
        if is_window(x):
            texts = self._windows.pop(0) if self._windows else []  # before those further down
            return WindowReader(self.read(x.input), texts, self._exprs.function, self._exprs.read).read(x)
        rel = self.read(x.input)
        found = self._over(rel)
        columns = projected(x, rel.fields, found.read)
        return project(found.rel, columns)

    def _over(self, rel: Rel, before: int = 0) -> Subqueries:
        """What reads expressions over this relation, which stands behind `before` other columns."""
        return Subqueries(rel, before, self._functions, self.read, self._tables)

    def _join(self, x: Any) -> Rel:
        turned = x.type in _TURNED
        kind = _TURNED[x.type] if turned else _JOINS.get(x.type)
        if kind is None or x.HasField("post_join_filter"):
            raise Refused("this kind of join", "use INNER, LEFT, RIGHT or FULL JOIN, EXISTS or IN", "join")
        left, right = self.read(x.left), self.read(x.right)
        if kind is JoinKind.INNER and NOTHING in (left, right):
            one = _crossed(left, right)
            found = self._over(one)
            return select_with(found, one, found.read(x.expression)) if x.HasField("expression") else one
        found = self._over(right, before=left.width)
        condition = found.read(x.expression, left.fields + right.fields) if x.HasField("expression") else None
        if found.added:
            if turned and not kind.pairs:
                raise Refused("a subquery in the condition of this join", "move it into WHERE", "( select")
            joined = turned_pair if turned else pair
            return pick(joined(left, found.rel, condition, kind), range(len(kind.fields(left.fields, right.fields))))
        if self._null_aware and name_of(x) in self._null_aware:
            self._refuse_lost()
            return not_in(left, right, None if turned else condition)
        if kind is JoinKind.MARK and self._text.member:
            self._refuse_lost()
            if not turned and condition is not None:
                return self._member(left, right, condition)
        if kind in (JoinKind.SEMI, JoinKind.ANTI) and not turned:
            anti = kind is JoinKind.ANTI
            counted = as_set_operation(left, right, condition, anti=anti, text=self._text, tables=self._tables)
            if counted is not None:
                return counted
        return turned_pair(left, right, condition, kind) if turned else pair(left, right, condition, kind)

    def _refuse_lost(self) -> None:
        if self._text.lost is not None:
            raise self._text.lost

    def _member(self, left: Rel, right: Rel, condition: Expr) -> Rel:
        """A mark that is IN, or, where the text has them too, may be EXISTS, ANY or ALL, which have two values."""
        rel = is_in(left, right, condition)
        if self._text.exists and not isinstance(rel.spec, Match):
            where = "beside EXISTS, ANY or ALL under OR, where NULLs may occur"
            raise Refused(f"IN (SELECT ...) {where}", "write EXISTS in its place", "in ( select")
        return rel


def _crossed(left: Rel, right: Rel) -> Rel:
    """CROSS JOIN. A side of one row of which nothing is read is exported as a SELECT without FROM."""
    if NOTHING in (left, right):
        return right if left is NOTHING else left
    return pair(left, right, None)


def _reads_nothing(rel: Rel) -> bool:
    return rel is NOTHING or any(_reads_nothing(i) for i in rel.inputs)


def _no_table() -> Refused:
    return Refused("a SELECT that reads no table", "name a table in FROM", "values", "select")
