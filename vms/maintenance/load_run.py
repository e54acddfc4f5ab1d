"""A view that a bulk job has built, on its way into an epoch (design section 10).

The job's state is of a snapshot, and what has changed since waited in the queues of the virtual store. The view
is brought from the one to the other beside the others: in a store of its own that has nothing but its plan, by
an ordinary run over the changes that the snapshot does not hold. Then its state joins that of the others, and
its epoch writes what differs from the rows that the job wrote. A change is in the snapshot exactly if its
sequence id is not above the cut of the region that held its row then (hbase-facts: 0 wrong of 22,625 cells).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from vms.maintenance.cut import Cut, Load
from vms.maintenance.epoch_run import EpochRun
from vms.maintenance.messages import ViewRows
from vms.maintenance.operations.delta_view import DeltaView
from vms.maintenance.record import Program
from vms.maintenance.virtual_store import VirtualStore, read_columns
from vms.model.catalog import BulkLoad
from vms.model.ring import Ring
from vms.model.rowkey import encode_keys
from vms.model.table import BaseTable

#: Between a loaded view and an edge of its run.
_OF = "/load/"


def not_in_snapshot(table: BaseTable, load: BulkLoad, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The source rows that the snapshot does not hold, in their order."""
    starts = [start for start, _ in load.cuts[table.name]]
    seqs = np.array([seq for _, seq in load.cuts[table.name]], np.int64)
    types = [c.type for c in table.key_columns]
    found = []
    for batch in batches:
        keys = encode_keys(types, [batch.column(k) for k in table.key])
        region = np.array([bisect_right(starts, key) - 1 for key in keys], np.int64)
        later = batch.column("_seq").to_numpy(zero_copy_only=False) > seqs[region]
        found.append(batch.filter(pa.array(later)))
    return [batch for batch in found if batch.num_rows]


class LoadedStore:
    """The store of one view as of its snapshot, and the changes that bring it to the cut."""

    def __init__(self, store: VirtualStore, program: Program, ring: Ring, member: str, view: str, load: Load) -> None:
        self.view, self.load = view, load
        self.program = Program(
            program.version, program.tables, program.plan.of_view(view), {view: program.created[view]}
        )
        self.store = VirtualStore(store.pool)
        self.store.install(self.program)
        for name, columns in load.described.columns.items():
            self.store.delta_views[name] = DeltaView(program.tables[name], columns, store.pool)
        self.store.load(load.state)
        self.store.drop(~ring.owned(member))
        self._queues = {t: store.queues.get(t, []) for t in self.program.plan.sources}

    def changes(self, cut_changes: Mapping[str, pa.RecordBatch], scanned: Iterable[str]) -> dict[str, pa.RecordBatch]:
        """Source rows by table: those that waited and those of the cut, without what the snapshot holds.

        A table that the cut scans is replaced by the scan, which all that waited is in.
        """
        found = {}
        for name, queue in self._queues.items():
            waited = [] if name in scanned else queue
            rows = [*waited, *([cut_changes[name]] if name in cut_changes else [])]
            left = not_in_snapshot(self.program.tables[name], self.load.described, rows)
            if left:
                found[name] = pa.Table.from_batches(left).combine_chunks().to_batches()[0]
        return found


class LoadingRun:
    """An epoch with views that are loaded in it: the run of all others, and one beside it for each of these.

    To the member it is one `EpochRun`.
    """

    def __init__(
        self, store: VirtualStore, program: Program, ring: Ring, member: str, loads: Mapping[str, LoadedStore], cut: Cut
    ) -> None:
        self._store, self.ring, self._loads = store, ring, loads
        tables = {t for loaded in loads.values() for t in loaded.load.described.columns}
        brought = tables - store.delta_views.keys() - cut.scans.keys()
        self._main = EpochRun(store, program, ring, member, loads.keys(), brought)
        self._beside: dict[str, EpochRun] = {}
        for view, loaded in loads.items():
            run = self._beside[view] = EpochRun(loaded.store, loaded.program, ring, member)
            run.apply_cut(replace(cut, changes=loaded.changes(cut.changes, cut.scans), loads={}))
        self._main.apply_cut(cut)
        self.finished = False

    def edges(self) -> list[str]:
        beside = [_name(view, edge) for view, run in self._beside.items() for edge in run.edges()]
        return [*self._main.edges(), *beside]

    def receive(self, edge: str, sender: str, rows: pa.RecordBatch | None) -> None:
        view, own = _parse(edge)
        (self._beside[view] if view else self._main).receive(own, sender, rows)

    def missing(self) -> list[tuple[str, str]]:
        beside = [(_name(view, e), m) for view, run in self._beside.items() for e, m in run.missing()]
        return [*self._main.missing(), *beside]

    @property
    def sent(self) -> dict[tuple[str, str], pa.RecordBatch | None]:
        beside = {(_name(view, e), m): b for view, run in self._beside.items() for (e, m), b in run.sent.items()}
        return {**self._main.sent, **beside}

    @property
    def views(self) -> dict[str, ViewRows]:
        return {**self._main.views, **{view: run.views[view] for view, run in self._beside.items()}}

    def advance(self) -> None:
        runs = [self._main, *self._beside.values()]
        for run in runs:
            run.advance()
        if not self.finished and all(run.finished for run in runs):
            self.finished = True
            for loaded in self._loads.values():
                self._take_over(loaded)

    def _take_over(self, loaded: LoadedStore) -> None:
        """The state joins that of the other views; what these hold already is held once."""
        program = self._store.program
        for id_ in self._main.elsewhere & loaded.store.operations.keys():
            self._store.operations[id_] = loaded.store.operations[id_]
        for name, delta_view in loaded.store.delta_views.items():
            held, needed = self._store.delta_views.get(name), read_columns(program.tables[name], program.plan)
            if held is None or not set(needed) <= set(held.columns):
                self._store.delta_views[name] = delta_view


def start_run(
    store: VirtualStore, program: Program, ring: Ring, member: str, cut: Cut, loads: Mapping[str, LoadedStore]
) -> EpochRun | LoadingRun:
    """The run of an epoch whose cut stands. `loads`: those of the cut that are made ready already."""
    if cut.loads:
        made = {v: loads.get(v) or LoadedStore(store, program, ring, member, v, load) for v, load in cut.loads.items()}
        return LoadingRun(store, program, ring, member, made, cut)
    run = EpochRun(store, program, ring, member)
    run.apply_cut(cut)
    return run


def _name(view: str, edge: str) -> str:
    return f"{view}{_OF}{edge}"


def _parse(edge: str) -> tuple[str, str]:
    """View ("": none) and own name of an edge."""
    view, _, own = edge.rpartition(_OF)
    return view, own
