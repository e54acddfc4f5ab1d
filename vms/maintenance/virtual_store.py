"""The virtual store: the in-memory tables of one member (design section 5, thesis 4.4).

A DeltaView for each base table that some view reads, and the state of every operation of the merged plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from vms.kernels.hashing import slot_of
from vms.maintenance.expressions import compile_predicate
from vms.maintenance.operations.aggregation import AggregationOperation
from vms.maintenance.operations.base import Operation
from vms.maintenance.operations.counted_join import CountedJoinOperation
from vms.maintenance.operations.delta_view import DeltaView
from vms.maintenance.operations.join import JoinOperation
from vms.maintenance.operations.pre_aggregation import PreAggregationOperation
from vms.maintenance.operations.projection import ProjectionOperation
from vms.maintenance.operations.repetition import RepetitionOperation
from vms.maintenance.operations.row_images import RowImages
from vms.maintenance.operations.selection import SelectionOperation
from vms.maintenance.operations.threshold_join import ThresholdJoinOperation
from vms.maintenance.operations.top_k import TopKOperation
from vms.maintenance.operations.union import UnionOperation
from vms.maintenance.operations.window import WindowOperation
from vms.maintenance.record import Program
from vms.maintenance.timeline import slots_of
from vms.model.changes import Bool, Int64
from vms.model.ring import SLOTS, Ring
from vms.model.table import BaseTable
from vms.model.text import TextPool
from vms.plan.plan import (
    Aggregation,
    Exchange,
    Join,
    JoinKind,
    MaintenancePlan,
    Node,
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

#: Operations whose output can be made from their state at any time.
STATEFUL = (Source, Join, Aggregation, TopK, Window)
ALL_SLOTS: Bool = np.ones(SLOTS, np.bool_)
_TOTAL_SLOT = int(slot_of((), (), TextPool(), 1)[0])
#: State of one member as it travels: name of the table or node -> batches.
State = Mapping[str, Sequence[pa.RecordBatch]]


def read_columns(table: BaseTable, plan: MaintenancePlan) -> tuple[str, ...]:
    """The value columns of the table that the plan reads, in declaration order."""
    wanted = set(plan.sources.get(table.name, ()))
    return tuple(c.name for c in table.value_columns if c.name in wanted)


class VirtualStore:
    """State of one member. Changed only by `EpochRun` and by the hand-over of slots."""

    def __init__(self, pool: TextPool | None = None) -> None:
        self.pool = TextPool() if pool is None else pool
        self.program = Program(0, {}, MaintenancePlan(()))
        self.delta_views: dict[str, DeltaView | RowImages] = {}
        #: Source rows that wait for views which a bulk job builds, by table, in the order of the cuts.
        self.queues: dict[str, list[pa.RecordBatch]] = {}
        self.operations: dict[str, Operation] = {}
        self._nodes: dict[str, Node] = {}
        self._placed: tuple[Ring, str, Program] | None = None

    def tables_to_scan(self, program: Program, generation: int) -> tuple[str, ...]:
        """The tables that `program` reads more of than is held here or comes with a load."""
        loads = [program.loads[v] for v in self.views_to_load(program, generation)]
        wanted = []
        for name in program.plan.sources:
            held = [set(load.columns[name]) for load in loads if name in load.columns]
            if name in self.delta_views:
                held.append(set(self.delta_views[name].columns))
            needed = set(read_columns(program.tables[name], program.plan))
            if not any(needed <= columns for columns in held):
                wanted.append(name)
        return tuple(wanted)

    def views_to_load(self, program: Program, generation: int) -> tuple[str, ...]:
        """The views that `program` is the first to have and whose changes waited here until now."""
        built = [v for v in program.loads if self.program.builds.get(v) == program.created[v]]
        return tuple(v for v in built if program.loads[v].generation == generation)

    def queue(self, table: str, rows: pa.RecordBatch) -> None:
        """Let source rows wait for the views that are being built over their table."""
        self.queues.setdefault(table, []).append(rows)

    def install(self, program: Program) -> frozenset[str]:
        """Make this the program; returns the ids of its new nodes. State of dropped nodes is freed.

        DeltaViews of tables that must be scanned are the caller's to set (`EpochRun`).
        """
        if program is self.program:
            return frozenset()
        before = self.program.created
        again = {n.id for v, n in program.plan.outputs.items() if program.created.get(v) != before.get(v)}
        new = frozenset(n.id for n in program.plan.nodes if n.id not in self._nodes or n.id in again)
        self._nodes = {n.id: n for n in program.plan.nodes}
        self.program = program
        self.operations = {id_: op for id_, op in self.operations.items() if id_ in self._nodes}
        for id_ in new:
            operation = self.build(self._nodes[id_])
            if operation is not None:
                self.operations[id_] = operation
        sources = program.plan.sources
        self.delta_views = {t: self._narrow(d) for t, d in self.delta_views.items() if t in sources}
        return new

    def follow(self, name: str) -> DeltaView | RowImages:
        """Begin with an empty table."""
        table = self.program.tables[name]
        columns = read_columns(table, self.program.plan)
        settled = name in self.program.settled
        self.delta_views[name] = RowImages(table, columns) if settled else DeltaView(table, columns, self.pool)
        return self.delta_views[name]

    def _narrow(self, held: DeltaView | RowImages) -> DeltaView | RowImages:
        """The DeltaView without columns that no view reads any more: the same columns on every member.

        A table that is settled now needs none.
        """
        columns = read_columns(held.table, self.program.plan)
        if isinstance(held, RowImages) or held.table.name in self.program.settled:
            return RowImages(held.table, columns)
        if not set(columns) < set(held.columns):
            return held
        narrow = DeltaView(held.table, columns, self.pool)
        dropped = {f"value:{c}" for c in held.columns if c not in columns}
        narrow.load([b.select([n for n in b.schema.names if n not in dropped]) for b in held.export(ALL_SLOTS)])
        return narrow

    def build(self, node: Node) -> Operation | None:
        """A fresh operation for the node; None for those that are only wiring."""
        types = [self._nodes[i].types for i in node.inputs]
        match node.spec:
            case Selection():
                return SelectionOperation(node, types[0], self.pool)
            case Projection():
                return ProjectionOperation(node, types[0], self.pool)
            case Repetition():
                return RepetitionOperation(node, types[0], self.pool)
            case Union():
                return UnionOperation(node)
            case Join() if threshold(node.spec, len(types[0])) is not None:
                return ThresholdJoinOperation(node, types[0], types[1], self.pool)
            case Join(kind=kind) if kind is not JoinKind.INNER:
                return CountedJoinOperation(node, types[0], types[1], self.pool)
            case Join():
                residual = None
                if node.spec.residual is not None:
                    residual = compile_predicate(node.spec.residual, self.pool)
                return JoinOperation(node, types[0], types[1], self.pool, residual)
            case PreAggregation():
                return PreAggregationOperation(node, self._nodes[node.inputs[0]].fields, self.pool)
            case Aggregation():
                return AggregationOperation(node, self._aggregated_fields(node), self.pool)
            case TopK():
                return TopKOperation(node, self.pool)
            case Window():
                return WindowOperation(node, types[0], self.pool)
        return None

    def _aggregated_fields(self, node: Node):  # type: ignore[no-untyped-def]
        """The fields below the PreAggregation that feeds this Aggregation."""
        below = self._nodes[node.inputs[0]]
        while not isinstance(below.spec, PreAggregation):
            below = self._nodes[below.inputs[0]]
        return self._nodes[below.inputs[0]].fields

    def node(self, id_: str) -> Node:
        return self._nodes[id_]

    def place(self, ring: Ring, member: str) -> None:
        """Tell the operations where they run: who owns grand totals, whether rows travel after combining."""
        placed = (ring, member, self.program)
        if placed == self._placed:
            return
        self._placed = placed
        feeds_exchange = {i for n in self._nodes.values() if isinstance(n.spec, Exchange) for i in n.inputs}
        for id_, operation in self.operations.items():
            if isinstance(operation, AggregationOperation):
                operation.owner = ring.owner(_TOTAL_SLOT) == member
            elif isinstance(operation, PreAggregationOperation):
                operation.combine = len(ring.members) > 1 and id_ in feeds_exchange

    def follow_all(self) -> None:
        """Start an empty DeltaView for every table that the program reads: its rows come by hand-over."""
        for name in self.program.plan.sources:
            if name not in self.delta_views:
                self.follow(name)

    def export(self, slots: Bool) -> dict[str, list[pa.RecordBatch]]:
        """The state of these slots: tables by `table:NAME`, operations by node id. Empty parts are left out."""
        parts = {f"table:{t}": d.export(slots) for t, d in self.delta_views.items()}
        for id_, operation in self.operations.items():
            parts[id_] = operation.export(slots)
        for name, batches in self.queues.items():
            parts[f"queue:{name}"] = [b for b in _in_slots(batches, slots) if b.num_rows]
        return {name: batches for name, batches in parts.items() if batches}

    def load(self, state: State) -> None:
        """Add exported state of slots that are empty here."""
        for name, batches in state.items():
            if name.startswith("table:"):
                self.delta_views[name.removeprefix("table:")].load(batches)
            elif name.startswith("queue:"):
                self.queues.setdefault(name.removeprefix("queue:"), []).extend(batches)
            else:
                self.operations[name].load(batches)

    def drop(self, slots: Bool) -> None:
        """Forget the state of these slots."""
        for delta_view in self.delta_views.values():
            delta_view.drop(slots)
        for operation in self.operations.values():
            operation.drop(slots)
        self.queues = {name: _in_slots(batches, ~slots) for name, batches in self.queues.items()}

    def sweep(self) -> None:
        """Free text that no state holds. Only between epochs, when no batch with codes is under way."""
        if not self.pool.wants_sweep():
            return
        live: list[Int64] = []
        for delta_view in self.delta_views.values():
            live.extend(delta_view.live_text())
        for operation in self.operations.values():
            live.extend(operation.live_text())
        self.pool.sweep(live)

    def memory_bytes(self) -> dict[str, int]:
        """Bytes by part: `table:NAME`, `queue:NAME`, node id, and `text`."""
        parts = {f"table:{t}": d.memory_bytes() for t, d in self.delta_views.items()}
        parts.update({f"queue:{t}": sum(b.nbytes for b in batches) for t, batches in self.queues.items()})
        parts.update({id_: op.memory_bytes() for id_, op in self.operations.items()})
        parts["text"] = self.pool.memory_bytes()
        return parts


def _in_slots(batches: Sequence[pa.RecordBatch], slots: Bool) -> list[pa.RecordBatch]:
    return [b.filter(pa.array(slots[slots_of(b)])) for b in batches]
