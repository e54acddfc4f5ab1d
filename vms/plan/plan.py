"""The maintenance plan: a DAG of operations from base tables to a view (thesis 4.3.1).

A plan is plain data. Equal sub-plans have equal node ids, so that plans of several views merge into one by
taking the union of their nodes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property

from vms.model.order import SortKey
from vms.model.types import BOOLEAN, SqlType
from vms.plan.expr import Expr


@dataclass(frozen=True, slots=True)
class Field:
    """One output column of an operation."""

    name: str
    type: SqlType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    """Round 0: the DeltaView of a base table, projected to `columns` (names, in output order)."""

    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows for which the predicate is true (not NULL)."""

    predicate: Expr


@dataclass(frozen=True, slots=True)
class Projection:
    """One expression for each output column."""

    exprs: tuple[Expr, ...]


class JoinKind(Enum):
    """Which rows a join has: two rows match where the keys are equal and the residual is true.

    INNER, LEFT and FULL have all columns of both inputs, the others those of the left input alone. LEFT keeps
    left rows that match nothing, with NULLs in the place of the right one; FULL keeps those of both sides. SEMI
    has each left row that matches something once, ANTI each that matches nothing, MARK every left row with one
    column more: whether it matches something.
    """

    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"
    MARK = "mark"

    @property
    def pairs(self) -> bool:
        """Whether it has the pairs of rows that match."""
        return self in (JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL)

    def fields(self, left: tuple[Field, ...], right: tuple[Field, ...]) -> tuple[Field, ...]:
        """The columns of the join of inputs with these columns."""
        if self is JoinKind.FULL:
            left = tuple(replace(f, nullable=True) for f in left)
        if self in (JoinKind.LEFT, JoinKind.FULL):
            right = tuple(replace(f, nullable=True) for f in right)
        if self is JoinKind.MARK:
            return (*left, Field("mark", BOOLEAN, False))
        return left + right if self.pairs else left


@dataclass(frozen=True, slots=True)
class Join:
    """Equi-join. `residual`, over the columns of the left input, then of the right, is the rest of the condition.

    Key pairs have equal types. A NULL key matches nothing. Rows of one key meet at its owner; `replicated`: where
    the left one is, as every member has all rows of the right input. `single`: no two rows of the right input have
    the same key.
    """

    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    residual: Expr | None = None
    kind: JoinKind = JoinKind.INNER
    replicated: bool = False
    single: bool = False


@dataclass(frozen=True, slots=True)
class Union:
    """The rows of all inputs, one after the other (UNION ALL). Inputs have equal types."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """Every row as often as `times` says, an integer that is never negative; not at all where it is 0 or NULL."""

    times: Expr


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate call, of `vms.plan.functions.AGGREGATES`. `arg` is a column of the input (none: count(*))."""

    function: str
    arg: int | None
    type: SqlType


@dataclass(frozen=True, slots=True)
class PreAggregation:
    """Stateless: turns rows into contributions per group and combines those of one batch before they travel.

    Output: the group columns, then the columns that `Aggregation` of the same calls takes
    (`vms.maintenance.operations.aggregation.contribution_fields`).
    """

    group: tuple[int, ...]
    calls: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Groups by the first `group_count` columns of a PreAggregation's output.

    Output: group columns, then one column a call. With no group column there is always exactly one row.
    """

    group_count: int
    calls: tuple[Aggregate, ...]


@dataclass(frozen=True, slots=True)
class TopK:
    """The rows at the places from `offset` on of the order, at most `limit` of them (None: all).

    Rows that the order leaves equal are ordered by their other columns (`vms.model.order.complete`).
    """

    order: tuple[SortKey, ...]
    offset: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around a row that a window function sees: from `start` to `end`, both included; None: no bound.

    With `rows` the bounds count rows, negative ones those before. Else (RANGE) they are distances of the sort
    column's code, 0 being the rows that the order finds equal; a row whose sort column is NULL sees those.
    """

    rows: bool
    start: int | None
    end: int | None


WINDOW_AGGREGATES = frozenset({"count", "sum", "avg", "min", "max"})


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One window function: an aggregate over the frame, or one of those named in `vms.plan.windows`.

    `number` is the distance of lag and lead, the n of nth_value and ntile; `default` is what lag and lead give
    where there is no row.
    """

    function: str
    arg: int | None
    type: SqlType
    frame: Frame
    number: int = 0
    default: Expr | None = None

    @property
    def aggregates(self) -> bool:
        """Whether it is an aggregate over its frame."""
        return self.function in WINDOW_AGGREGATES

    @property
    def depends_on_ties(self) -> bool:
        """Whether the result may change with the order of rows that ORDER BY leaves equal."""
        if self.aggregates:
            return self.frame.rows and (self.frame.start, self.frame.end) != (None, None)
        return self.function not in ("rank", "dense_rank", "percent_rank", "cume_dist")


@dataclass(frozen=True, slots=True)
class Window:
    """Output: the input's columns, then one for each call, computed over the rows that agree in `partition`.

    Rows that the order leaves equal are ordered by their other columns (`vms.model.order.complete`).
    """

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    calls: tuple[WindowCall, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Sends every row to the member that owns the slot of its `key` columns: starts a new DistributionRound.

    An empty key sends everything to the owner of one fixed slot (a grand total). With `everywhere` every row goes
    to every member: the right input of a replicated join, and of nothing else.
    """

    key: tuple[int, ...]
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """The view table's rows: `key` columns become the row key, all columns are stored.

    Rows of one view key always reach the same member. With `bag`, the last column is the number of times
    that the row occurs and readers repeat it so often; it is not shown.
    """

    view: str
    key: tuple[int, ...]
    bag: bool = False


Spec = (
    Source
    | Selection
    | Projection
    | Join
    | Union
    | Repetition
    | PreAggregation
    | Aggregation
    | TopK
    | Window
    | Exchange
    | Output
)


@dataclass(frozen=True)
class Node:
    """One operation in its place. `id` is a structural hash of the operation and everything below it.

    `distribution`: the columns of this node's output by whose slot the rows are spread over the members
    (None: not known to be spread by any columns of the output).
    """

    id: str
    spec: Spec
    inputs: tuple[str, ...]
    fields: tuple[Field, ...]
    distribution: tuple[int, ...] | None

    @cached_property
    def types(self) -> tuple[SqlType, ...]:
        return tuple(f.type for f in self.fields)


def make_node(
    spec: Spec, inputs: Iterable[Node], fields: tuple[Field, ...], distribution: tuple[int, ...] | None
) -> Node:
    """A node with its structural id. Field names take no part in it, types do."""
    ids = tuple(n.id for n in inputs)
    text = repr((spec, ids, tuple(str(f.type) for f in fields)))
    kind = type(spec).__name__.lower()
    return Node(f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}", spec, ids, fields, distribution)


@dataclass(frozen=True)
class MaintenancePlan:
    """Nodes in an order in which every node stands after its inputs."""

    nodes: tuple[Node, ...]

    def node(self, id: str) -> Node:
        return next(n for n in self.nodes if n.id == id)

    @cached_property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """Every base table with the columns that are read of it, over all source nodes."""
        found: dict[str, set[str]] = {}
        for n in self.nodes:
            if isinstance(n.spec, Source):
                found.setdefault(n.spec.table, set()).update(n.spec.columns)
        return {t: tuple(sorted(cs)) for t, cs in sorted(found.items())}

    @cached_property
    def outputs(self) -> dict[str, Node]:
        """The output node of every view."""
        return {n.spec.view: n for n in self.nodes if isinstance(n.spec, Output)}

    def of_view(self, view: str) -> MaintenancePlan:
        """The part of it that one view needs."""
        nodes = {n.id: n for n in self.nodes}
        wanted: set[str] = set()
        todo = [self.outputs[view].id]
        while todo:
            id_ = todo.pop()
            if id_ not in wanted:
                wanted.add(id_)
                todo.extend(nodes[id_].inputs)
        return MaintenancePlan(tuple(n for n in self.nodes if n.id in wanted))

    @staticmethod
    def merge(plans: Iterable[MaintenancePlan]) -> MaintenancePlan:
        """One plan for several views: equal nodes once."""
        seen: dict[str, Node] = {}
        for p in plans:
            for n in p.nodes:
                seen.setdefault(n.id, n)
        return MaintenancePlan(tuple(seen.values()))
