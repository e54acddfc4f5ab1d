"""One epoch on one member, from the cut to the changed view rows (design sections 4 and 6).

A node of the plan gives *changes* (what the epoch brings) and, where an operation that is new in this epoch
stands above it, its *full* contents. New operations take the full contents as their first input, so that a
view created over existing views and tables shares their state and is right from its first epoch. Each exchange
has an edge for the one and an edge for the other; an edge runs when the batches of all members are there, in
the order of the members, so the result does not depend on the order of arrival.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

import numpy as np
import pyarrow as pa

from vms.kernels.consolidate import consolidate
from vms.kernels.hashing import slot_of
from vms.maintenance.cut import Cut
from vms.maintenance.messages import ViewRows
from vms.maintenance.operations.base import StatefulOperation
from vms.maintenance.operations.delta_view import DeltaView
from vms.maintenance.operations.output import view_rows
from vms.maintenance.operations.row_images import RowImages, settling, split
from vms.maintenance.operations.top_k import TopKOperation
from vms.maintenance.record import Program
from vms.maintenance.source_rows import absent_rows, row_changes
from vms.maintenance.virtual_store import STATEFUL, VirtualStore, read_columns
from vms.model.arrow import from_changes, to_changes
from vms.model.changes import Changes, Column, RowChanges
from vms.model.ring import Ring
from vms.plan.plan import Exchange, Node, Output, Source

FULL = "/full"


class EpochRun:
    """Runs the merged plan for one epoch. `sent` and `views` fill up as `advance` gets further."""

    def __init__(
        self,
        store: VirtualStore,
        program: Program,
        ring: Ring,
        member: str,
        loaded: Collection[str] = (),
        brought: Collection[str] = (),
    ) -> None:
        """`loaded`: views that another run brings (`vms.maintenance.load_run`), with the tables `brought`."""
        self._store, self.ring, self._member = store, ring, member
        self._plan, self._loaded, self._brought = program.plan, loaded, brought
        new = store.install(program)
        #: New nodes that no view but the loaded ones needs: the other run computes them.
        self.elsewhere = self._only_of(loaded) & new if loaded else frozenset()
        self.new = new - self.elsewhere
        store.place(ring, member)
        self._full_wanted = self._find_full_wanted()
        self._changes: dict[str, Changes] = {}
        self._full: dict[str, Changes] = {}
        self._table_changes: dict[str, Changes] = {}
        self._received: dict[str, dict[str, Changes]] = {}
        #: Batches for other members by (edge, receiver); None: nothing to send but the token.
        self.sent: dict[tuple[str, str], pa.RecordBatch | None] = {}
        #: Changed rows of each view that has an output here.
        self.views: dict[str, ViewRows] = {}
        self.finished = False

    def _only_of(self, views: Collection[str]) -> frozenset[str]:
        """The nodes that only these views need."""
        others = {n.id for v in self._plan.outputs if v not in views for n in self._plan.of_view(v).nodes}
        return frozenset(n.id for n in self._plan.nodes if n.id not in others)

    def _find_full_wanted(self) -> set[str]:
        """Existing nodes whose full contents are needed by a new node, directly or through stateless ones."""
        if not self.new:
            return set()
        nodes = {n.id: n for n in self._plan.nodes}
        todo = [i for n in self._plan.nodes if n.id in self.new for i in n.inputs if i not in self.new]
        wanted: set[str] = set()
        while todo:
            id_ = todo.pop()
            if id_ not in wanted:
                wanted.add(id_)
                if not isinstance(nodes[id_].spec, STATEFUL):
                    todo.extend(nodes[id_].inputs)
        return wanted

    def edges(self) -> list[str]:
        """The names of all edges that other members send for in this epoch."""
        found = []
        for n in self._plan.nodes:
            if isinstance(n.spec, Exchange) and n.id not in self.elsewhere:
                if n.id not in self.new:
                    found.append(n.id)
                if n.id in self.new or n.id in self._full_wanted:
                    found.append(n.id + FULL)
        return found if len(self.ring.members) > 1 else []

    def apply_cut(self, cut: Cut) -> None:
        """Bring the DeltaViews to the cut: scans first, then the stream's changes."""
        self._queue(cut)
        for name in self._plan.sources:
            if name in self._brought:
                continue
            table = self._store.program.tables[name]
            parts = []
            if name in cut.scans:
                parts.append(self._scan(name, cut))
            delta_view = self._store.delta_views.get(name)
            if delta_view is None:
                delta_view = self._store.follow(name)
            if name in cut.changes:
                columns, pool = delta_view.columns, self._store.pool
                changes = row_changes(table, columns, cut.changes[name], pool)
                if isinstance(delta_view, RowImages):
                    parts.append(delta_view.step(changes))
                else:
                    parts.append(delta_view.step(*self._settled(delta_view, changes, cut)))
            width = len(delta_view.types)
            self._table_changes[name] = Changes.concat(parts, width)

    def _queue(self, cut: Cut) -> None:
        """Keep the changes for the views that are being built, and no others."""
        queued = self._store.program.queued
        self._store.queues = {t: rows for t, rows in self._store.queues.items() if t in queued}
        for name in sorted(queued & cut.changes.keys()):
            self._store.queue(name, cut.changes[name])

    def apply_changes(self, sources: Mapping[str, RowChanges]) -> None:
        """Bring the DeltaViews on by changes that need no reading again: a cut without log and store."""
        self._store.follow_all()
        for name in self._plan.sources:
            delta_view = self._store.delta_views[name]
            nothing = Changes.empty(len(delta_view.types))
            self._table_changes[name] = delta_view.step(sources[name]) if name in sources else nothing

    def full_contents(self, node: Node) -> Changes:
        """All rows of the node on this member, in a ring of one."""
        if isinstance(node.spec, STATEFUL):
            return self._contents(node)
        inputs = [self.full_contents(self._store.node(i)) for i in node.inputs]
        operation = self._store.build(node)
        return inputs[0] if operation is None else operation.step(inputs)

    def _scan(self, name: str, cut: Cut) -> Changes:
        """Replace the DeltaView by one made of the scan; emits what differs for the nodes that stay."""
        table, pool = self._store.program.tables[name], self._store.pool
        old = self._store.delta_views.get(name)
        fresh = DeltaView(table, read_columns(table, self._plan), pool)
        scan = cut.scans[name]
        fresh.replace(row_changes(table, fresh.columns, scan.rows, pool), horizon=scan.horizon)
        self._store.delta_views[name] = fresh
        if old is None:
            return fresh.contents()
        now, then = fresh.contents(), old.contents()
        keys = len(table.key)
        both = [c for c in old.columns if c in fresh.columns]
        shared = [*range(keys), *(keys + fresh.columns.index(c) for c in both)]
        before = then.select([*range(keys), *(keys + old.columns.index(c) for c in both)])
        retract = Changes(before.columns, -before.weights)
        difference = consolidate(
            Changes.concat([now.select(shared), retract], len(shared)), [fresh.types[i] for i in shared]
        )
        return _widen(difference, shared, len(fresh.types))

    def _settled(self, delta_view: DeltaView, changes: RowChanges, cut: Cut) -> tuple[RowChanges, RowChanges | None]:
        """The changes, and the rows that are known as a whole: those read from the store, and images."""
        name, pool = delta_view.table.name, self._store.pool
        changes, images = split(changes)
        parts = [] if images is None else [settling(images, delta_view.key_types)]
        if name in cut.rereads:
            parts.append(row_changes(delta_view.table, delta_view.columns, cut.rereads[name], pool))
        if name in cut.absent:
            parts.append(absent_rows(delta_view.table, delta_view.columns, cut.absent[name], pool))
        return changes, RowChanges.concat(parts) if parts else None

    def receive(self, edge: str, sender: str, rows: pa.RecordBatch | None) -> None:
        """Another member's part of an edge. Repeats are dropped: one name has one content."""
        of_edge = self._received.setdefault(edge, {})
        if sender not in of_edge:
            node = self._store.node(edge.removesuffix(FULL))
            empty = Changes.empty(len(node.fields))
            of_edge[sender] = empty if rows is None else to_changes(node.types, rows, self._store.pool)

    def missing(self) -> list[tuple[str, str]]:
        """(edge, sender) of every batch that has not come."""
        others = [m for m in self.ring.members if m != self._member]
        return [(e, m) for e in self.edges() for m in others if m not in self._received.get(e, {})]

    def advance(self) -> None:
        """Run every node whose inputs are there."""
        waiting = False
        for node in self._plan.nodes:
            if node.id in self.elsewhere:
                continue
            if node.id not in self.new and node.id not in self._changes:
                waiting |= not self._run(node, self._changes, full=False)
            if (node.id in self.new or node.id in self._full_wanted) and node.id not in self._full:
                waiting |= not self._run(node, self._full, full=True)
        if not waiting and not self.finished:
            self.finished = True
            for view, node in self._plan.outputs.items():
                if view in self._loaded:
                    continue
                results = self._full if node.id in self.new else self._changes
                self.views[view] = view_rows(node, results[node.id])

    def _run(self, node: Node, results: dict[str, Changes], *, full: bool) -> bool:
        """Compute the node into `results`; False if an input is not there yet."""
        existing = node.id not in self.new
        if full and existing and isinstance(node.spec, STATEFUL):
            if node.id not in self._changes:
                return False
            results[node.id] = self._contents(node)
            return True
        if isinstance(node.spec, Source):
            results[node.id] = self._contents(node) if full else self._source(node)
            return True
        inputs = [results[i] for i in node.inputs if i in results]
        if len(inputs) < len(node.inputs):
            return False
        if isinstance(node.spec, Exchange):
            merged = self._exchange(node, inputs[0], node.id + FULL if full else node.id)
            if merged is None:
                return False
            results[node.id] = merged
        elif isinstance(node.spec, Output):
            results[node.id] = inputs[0]
        elif existing and not any(map(len, inputs)) and not self._has_moved(node):
            results[node.id] = Changes.empty(len(node.fields))
        else:
            # A stateless node that stays is run a second time for its full contents: by a throw-away copy.
            operation = self._store.build(node) if full and existing else self._store.operations[node.id]
            assert operation is not None
            results[node.id] = operation.step(inputs)
        return True

    def _has_moved(self, node: Node) -> bool:
        operation = self._store.operations.get(node.id)
        return isinstance(operation, TopKOperation) and operation.moved

    def _source_positions(self, node: Node) -> list[int]:
        assert isinstance(node.spec, Source)
        position = self._store.delta_views[node.spec.table].position
        return [position[c] for c in node.spec.columns]

    def _source(self, node: Node) -> Changes:
        assert isinstance(node.spec, Source)
        return self._table_changes[node.spec.table].select(self._source_positions(node))

    def _contents(self, node: Node) -> Changes:
        if isinstance(node.spec, Source):
            return self._store.delta_views[node.spec.table].contents().select(self._source_positions(node))
        return cast(StatefulOperation, self._store.operations[node.id]).contents()

    def _exchange(self, node: Node, rows: Changes, edge: str) -> Changes | None:
        """Send others their part once; the merged result when every member's part is here."""
        assert isinstance(node.spec, Exchange)
        if len(self.ring.members) == 1:
            return rows
        received = self._received.setdefault(edge, {})
        if self._member not in received:
            for member, part in zip(self.ring.members, self._parts(node, node.spec, rows)):
                if member == self._member:
                    received[member] = part
                else:
                    batch = from_changes(node.types, part, self._store.pool) if len(part) else None
                    self.sent[edge, member] = batch
        if len(received) < len(self.ring.members):
            return None
        return Changes.concat([received[m] for m in self.ring.members], len(node.fields))

    def _parts(self, node: Node, spec: Exchange, rows: Changes) -> list[Changes]:
        """The rows that each member of the ring gets."""
        if spec.everywhere:
            return [rows] * len(self.ring.members)
        key, types = [rows.columns[k] for k in spec.key], [node.types[k] for k in spec.key]
        owners = self.ring.owners[slot_of(key, types, self._store.pool, len(rows))]
        return [rows.take(np.flatnonzero(owners == i)) for i in range(len(self.ring.members))]


def _widen(changes: Changes, positions: list[int], width: int) -> Changes:
    """The columns at their positions among `width`; the others, which no node that stays reads, are NULL."""
    nothing = Column(np.zeros(len(changes), np.int64), np.zeros(len(changes), np.bool_))
    columns = [nothing] * width
    for column, at in zip(changes.columns, positions):
        columns[at] = column
    return Changes(tuple(columns), changes.weights)
