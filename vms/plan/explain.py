"""`vms explain`: a view's maintenance plan as text.

Read the tree from the bottom: a change of a base row climbs from its table to the view. `round n` says after
how many exchanges between members an operation runs; everything in one round runs where the rows are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vms.plan.contributions import AccumulatorKind, layout_of
from vms.plan.describe import (
    column_name,
    column_names,
    describe_call,
    describe_expr,
    describe_frame,
    describe_order,
    describe_size,
    describe_top_k,
    describe_window,
    listed,
)
from vms.plan.frontend import ViewPlan
from vms.plan.plan import (
    Aggregation,
    Exchange,
    Field,
    Join,
    JoinKind,
    MaintenancePlan,
    Node,
    Output,
    PreAggregation,
    Projection,
    Repetition,
    Selection,
    Source,
    TopK,
    Union,
    Window,
)
from vms.plan.thresholds import threshold

_JOINS = {
    JoinKind.INNER: "Join",
    JoinKind.LEFT: "LeftJoin",
    JoinKind.FULL: "FullJoin",
    JoinKind.SEMI: "SemiJoin",
    JoinKind.ANTI: "AntiJoin",
    JoinKind.MARK: "MarkJoin",
}


@dataclass(frozen=True)
class Running:
    """A registered view among the others. `views` and `memory`: who uses a part, and its bytes, where a part is a
    node's id or `table:NAME`. `readers`: the views that read this one. `settled`: the tables that are followed by the
    images of their changes, without a DeltaView."""

    views: Mapping[str, Sequence[str]]
    memory: Mapping[str, int]
    readers: Sequence[str]
    settled: Collection[str] = ()


def explain(view: ViewPlan, running: Running | None = None) -> str:
    """The view's columns, its operations with rounds and state, and the DataFusion plan they came from."""
    text = _Explanation(view.plan, view.name, running)
    output = view.plan.outputs[view.name]
    sections = [
        (f"view {view.name}", [_column(f) for f in view.fields]),
        ("reads", [*(f"table {t}" for t in view.tables), *(f"view {v}" for v in view.views)]),
        ("read by", [f"view {v}" for v in (running.readers if running is not None else ())]),
        ("operations", text.tree(output)),
        ("rounds", text.rounds()),
        ("state", text.state()),
        ("memory", text.memory()),
        ("notes", list(view.notes)),
        ("from the DataFusion plan", view.logical.splitlines()),
    ]
    return "\n".join(line for title, body in sections if body for line in (title, *(f"  {b}" for b in body))) + "\n"


def explain_data(view: ViewPlan, running: Running | None = None) -> dict[str, Any]:
    """The same as plain values. `views` of an operation are all that use it, this one among them."""
    text = _Explanation(view.plan, view.name, running)
    return {
        "view": view.name,
        "columns": [{"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in view.fields],
        "tables": list(view.tables),
        "views": list(view.views),
        "read_by": list(running.readers) if running is not None else [],
        "operations": [
            {
                "id": n.id,
                "operation": describe_operation(view.plan, n),
                "round": text.round_of(n),
                "inputs": list(n.inputs),
                **text.use(n.id),
            }
            for n in view.plan.nodes
        ],
        "delta_views": [
            {"table": t, "columns": list(columns), **text.use(f"table:{t}")}
            for t, columns in view.plan.sources.items()
            if not text.is_settled(t)
        ],
        "rounds": text.rounds(),
        "state": text.state(),
        "notes": list(view.notes),
        "datafusion": view.logical.splitlines(),
    }


def describe_operation(plan: MaintenancePlan, node: Node) -> str:
    """One operation in one line."""
    return _Explanation(plan)._operation(node)


def _column(f: Field) -> str:
    return f"{f.name} {f.type}{'' if f.nullable else ' NOT NULL'}"


class _Explanation:
    def __init__(self, plan: MaintenancePlan, view: str = "", running: Running | None = None) -> None:
        self._plan, self._view, self._running = plan, view, running
        self._round: dict[str, int] = {}
        for n in plan.nodes:
            below = max((self._round[i] for i in n.inputs), default=0)
            self._round[n.id] = below + isinstance(n.spec, Exchange)

    def _input(self, n: Node, side: int = 0) -> Node:
        return self._plan.node(n.inputs[side])

    def round_of(self, n: Node) -> int:
        return self._round[n.id]

    def is_settled(self, table: str) -> bool:
        return self._running is not None and table in self._running.settled

    def use(self, part: str) -> dict[str, Any]:
        """Who uses a part, and its memory."""
        if self._running is None:
            return {"views": [], "memory_bytes": 0}
        return {
            "views": list(self._running.views.get(part, ())),
            "memory_bytes": self._running.memory.get(part, 0),
        }

    def _others(self, part: str) -> list[str]:
        return [v for v in self.use(part)["views"] if v != self._view]

    def tree(self, n: Node, depth: int = 0, told: Sequence[str] = ()) -> list[str]:
        """The node and all below it, one line each; who shares them is said at the topmost one."""
        others = self._others(n.id)
        sharing = f", shared with {listed(others)}" if others and others != told else ""
        lines = [f"{'  ' * depth}{self._operation(n)}  [round {self._round[n.id]}{sharing}]"]
        for i in n.inputs:
            lines += self.tree(self._plan.node(i), depth + 1, others)
        return lines

    def memory(self) -> list[str]:
        """Every part that holds memory, the largest first, and who shares it."""
        names = {f"table:{t}": f"DeltaView of {t}" for t in self._plan.sources}
        names |= {n.id: self._operation(n) for n in self._plan.nodes}
        sizes = {part: self.use(part)["memory_bytes"] for part in names}
        lines = []
        for part in sorted((p for p in names if sizes[p]), key=lambda p: -sizes[p]):
            others = self._others(part)
            lines.append(
                f"{describe_size(sizes[part]):>7}  {names[part]}"
                + (f", shared with {listed(others)}" if others else "")
            )
        return lines

    def _operation(self, n: Node) -> str:
        match n.spec:
            case Source(table=table, columns=columns):
                return f"Source {table} ({', '.join(columns)})"
            case Selection(predicate=predicate):
                return f"Selection {describe_expr(predicate, n.fields)}"
            case Projection(exprs=exprs):
                below = self._input(n).fields
                return f"Projection {', '.join(describe_expr(e, below) for e in exprs)}"
            case Join():
                return f"{_JOINS[n.spec.kind]} on {self._join_condition(n, n.spec)}"
            case Union():
                return "Union"
            case Repetition(times=times):
                return f"Repetition {describe_expr(times, n.fields)} times"
            case PreAggregation(group=group):
                fields = self._input(n).fields
                return f"PreAggregation {_grouped([column_name(g, fields) for g in group], self._calls(n))}"
            case Aggregation(group_count=size):
                return f"Aggregation {_grouped([f.name for f in n.fields[:size]], self._calls(n))}"
            case TopK():
                return f"TopK {describe_top_k(n.spec, n.fields)}"
            case Window():
                return f"Window {self._window(n, n.spec)}"
            case Exchange():
                return f"Exchange {_by(n.spec, n.fields)}"
            case Output(view=view, key=key, bag=bag):
                rows = ", each row with the number of times that it occurs" if bag else ""
                return f"Output {view} key ({column_names(key, n.fields)}){rows}"

    def _join_condition(self, n: Node, spec: Join) -> str:
        left, right = self._input(n).fields, self._input(n, 1).fields
        pairs = [f"{column_name(a, left)} = {column_name(b, right)}" for a, b in zip(spec.left_keys, spec.right_keys)]
        rest = [] if spec.residual is None else [describe_expr(spec.residual, left + right)]
        return " AND ".join(pairs + rest) or "all pairs"

    def _window(self, n: Node, spec: Window) -> str:
        fields = self._input(n).fields
        order = f" order ({describe_order(spec.order, fields)})" if spec.order else ""
        key = fields[spec.order[0].column].type if spec.order else None
        calls = ", ".join(describe_window(c, fields) + describe_frame(c.frame, key) for c in spec.calls)
        return f"{calls} by ({column_names(spec.partition, fields)}){order}"

    def _calls(self, n: Node) -> list[str]:
        """The aggregate calls in terms of the rows that are aggregated."""
        while not isinstance(n.spec, PreAggregation):
            n = self._input(n)
        fields = self._input(n).fields
        return [describe_call(c, fields) for c in n.spec.calls]

    def rounds(self) -> list[str]:
        """Which rows start where, then each redistribution."""
        tables = dict.fromkeys(n.spec.table for n in self._plan.nodes if isinstance(n.spec, Source))
        lines = [f"0  rows of {', '.join(tables)} by row key"]
        for n in sorted(self._plan.nodes, key=lambda n: self._round[n.id]):
            if isinstance(n.spec, Exchange):
                lines.append(f"{self._round[n.id]}  {self._subject(self._input(n))} {_by(n.spec, n.fields)}")
        return lines

    def _subject(self, n: Node) -> str:
        """What travels: the operation whose rows these are."""
        while isinstance(n.spec, Selection | Projection | Repetition):
            n = self._input(n)
        match n.spec:
            case Source(table=table):
                return f"rows of {table}"
            case Union():
                return "rows of a union"
            case PreAggregation():
                return "contributions to groups"
            case Window():
                return "rows of windows"
            case TopK():
                return "first rows"
            case Join():
                return f"rows joined on {self._join_condition(n, n.spec)}"
        return "groups"

    def state(self) -> list[str]:
        """What is kept in memory between changes."""
        lines = [
            f"nothing of {table}: its changes carry the rows before and after them"
            if self.is_settled(table)
            else f"DeltaView of {table}: the last known {', '.join(columns) or 'key'} of each row"
            for table, columns in self._plan.sources.items()
        ]
        for n in self._plan.nodes:
            match n.spec:
                case Join() if threshold(n.spec, len(self._input(n).fields)) is not None:
                    lines.append(
                        f"rows in the order of what is compared, for {self._join_condition(n, n.spec)}: "
                        f"left ({_names(self._input(n).fields)}), right: the bounds"
                    )
                case Join():
                    lines.append(
                        f"ReverseJoinView on {self._join_condition(n, n.spec)}: "
                        f"left ({_names(self._input(n).fields)}), right ({_names(self._input(n, 1).fields)})"
                    )
                case Window():
                    lines.append(f"rows of Window {self._window(n, n.spec)}: all that came in")
                case TopK():
                    lines.append(f"rows of TopK {describe_top_k(n.spec, n.fields)}: all that came in")
                case Aggregation():
                    made = layout_of(self._plan, n)
                    values = len(made.positions(AccumulatorKind.VALUE))
                    totals = len(made.accumulators) - values
                    calls = ", ".join(self._calls(n)) or "groups"
                    by_value = f", columns kept value by value: {values}" if values else ""
                    lines.append(f"PreAggregationView of {calls}: totals a group: {totals}{by_value}")
        return lines


def _names(fields: Sequence[Field]) -> str:
    return ", ".join(f.name for f in fields)


def _grouped(group: list[str], calls: list[str]) -> str:
    return f"{', '.join(calls) or 'groups'} by ({', '.join(group)})"


def _by(spec: Exchange, fields: Sequence[Field]) -> str:
    if spec.everywhere:
        return "to every member"
    return f"by ({column_names(spec.key, fields)})" if spec.key else "to one place"
