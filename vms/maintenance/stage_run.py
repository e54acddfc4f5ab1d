"""One stage of a plan over one part of the slots, or over a piece of a table: what a bulk job runs.

The operations are those of a member, built by the same virtual store and fed with everything at once. What they
hold then is what members that own these slots would hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from vms.kernels.hashing import slot_of
from vms.maintenance.operations.delta_view import DeltaView
from vms.maintenance.operations.output import view_rows
from vms.maintenance.record import Program
from vms.maintenance.source_rows import row_changes
from vms.maintenance.virtual_store import ALL_SLOTS, VirtualStore
from vms.model.arrow import from_changes, to_changes
from vms.model.changes import Changes
from vms.model.ring import SLOTS, Ring
from vms.model.table import BaseTable
from vms.plan.plan import Exchange, Output, Source
from vms.plan.stages import Stages

#: Name under which the rows of the view stand beside the state of its operations.
VIEW = "view"


def parts_of(count: int) -> Ring:
    """The slots in this many parts; each is called by its number."""
    return Ring(1, tuple(map(str, range(count))), np.arange(SLOTS, dtype=np.int64) * count // SLOTS)


class StageRun:
    """Takes the rows that come into the stage, runs it, and gives what it sends on and what it holds."""

    def __init__(self, stages: Stages, tables: Mapping[str, BaseTable], parts: Ring, stage: int, part: int) -> None:
        self._stages, self._tables, self._parts, self._stage, self._part = stages, tables, parts, stage, part
        self._store = VirtualStore()
        self._store.install(Program(1, tables, stages.plan))
        self._store.place(parts, str(part))
        self._delta_views: dict[str, DeltaView] = {}
        self._came: dict[str, list[Changes]] = {}
        self._results: dict[str, Changes] = {}

    def read(self, table: str, columns: tuple[str, ...], rows: pa.RecordBatch, horizon: int) -> None:
        """A piece of a table, as source rows; the table's other pieces are for other runs of stage 0."""
        pool = self._store.pool
        view = DeltaView(self._tables[table], columns, pool)
        contents = view.replace(row_changes(self._tables[table], columns, rows, pool), horizon=horizon)
        self._delta_views[table] = view
        names = [*view.table.key, *view.columns]
        for node in self._stages.plan.nodes:
            if isinstance(node.spec, Source) and node.spec.table == table:
                self._results[node.id] = contents.select([names.index(c) for c in node.spec.columns])

    def receive(self, node: str, rows: pa.RecordBatch) -> None:
        """Rows of a node that crossed into the part."""
        self._came.setdefault(node, []).append(to_changes(self._store.node(node).types, rows, self._store.pool))

    def run(self) -> None:
        """Every operation of the stage, over everything that came. In stage 0 those that the piece reaches."""
        for id_, came in self._came.items():
            self._results[id_] = Changes.concat(came, len(self._store.node(id_).fields))
        for id_ in self._stages.nodes(self._stage):
            node = self._store.node(id_)
            if isinstance(node.spec, Source) or (self._stage == 0 and not self._reached(node.inputs)):
                continue
            inputs = [self._result(i) for i in node.inputs]
            if isinstance(node.spec, Output):
                self._results[id_] = view_rows(node, inputs[0]).puts
            else:
                self._results[id_] = self._store.operations[id_].step(inputs)

    def _reached(self, inputs: tuple[str, ...]) -> bool:
        return any(i in self._results for i in inputs)

    def _result(self, id_: str) -> Changes:
        """No rows of a node came here, or the piece is of another table: it has none."""
        if id_ not in self._results:
            return Changes.empty(len(self._store.node(id_).fields))
        return self._results[id_]

    def sent(self) -> Iterator[tuple[int, str, pa.RecordBatch]]:
        """Part, node and rows of all that is for later stages."""
        for crossing in self._stages.crossings[self._stage]:
            node = self._store.node(crossing.node)
            exchanged = isinstance(node.spec, Exchange) and self._stages.of_node[node.id] == self._stage + 1
            rows = self._result(node.inputs[0] if exchanged else node.id)
            if crossing.everywhere:
                batch = from_changes(node.types, rows, self._store.pool)
                yield from ((part, node.id, batch) for part in range(len(self._parts.members)) if len(rows))
                continue
            if crossing.key is None:
                targets = np.full(len(rows), self._part, np.int64)
            else:
                key, types = [rows.columns[k] for k in crossing.key], [node.types[k] for k in crossing.key]
                targets = self._parts.owners[slot_of(key, types, self._store.pool, len(rows))]
            order = np.argsort(targets, kind="stable")
            found, starts = np.unique(targets[order], return_index=True)
            for part, at in zip(found.tolist(), np.split(order, starts[1:])):
                yield part, node.id, from_changes(node.types, rows.take(at), self._store.pool)

    def state(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What the stage's operations hold, as members load it, and the view's rows as changes."""
        for table, view in self._delta_views.items():
            for batch in view.export(ALL_SLOTS):
                yield f"table:{table}", batch
        for id_ in self._stages.nodes(self._stage):
            node = self._store.node(id_)
            if isinstance(node.spec, Output):
                yield VIEW, from_changes(node.types, self._results[id_], self._store.pool)
            elif id_ in self._store.operations:
                for batch in self._store.operations[id_].export(ALL_SLOTS):
                    yield id_, batch
