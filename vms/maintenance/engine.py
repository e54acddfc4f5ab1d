"""The engine alone: a plan driven from decoded columns, without stream, log or view table.

It runs the same `EpochRun` over the same state as a member does; benchmarks and tests of whole plans use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from vms.maintenance.epoch_run import EpochRun
from vms.maintenance.messages import ViewRows
from vms.maintenance.record import Program
from vms.maintenance.virtual_store import VirtualStore, read_columns
from vms.model.arrow import from_column
from vms.model.changes import RowChanges
from vms.model.ring import SLOTS, Ring
from vms.model.table import BaseTable
from vms.plan.plan import MaintenancePlan, Output

_ALONE = Ring(1, ("engine",), np.zeros(SLOTS, np.int64))


class Engine:
    """One member, no I/O. Each `step` is an epoch."""

    def __init__(self, plan: MaintenancePlan, tables: Mapping[str, BaseTable]) -> None:
        self._program = Program(1, dict(tables), plan)
        self._store = VirtualStore()
        self.pool = self._store.pool

    def source_columns(self, table: str) -> tuple[str, ...]:
        """The value columns in the order in which `RowChanges.values` must have them."""
        return read_columns(self._program.tables[table], self._program.plan)

    def step(self, sources: Mapping[str, RowChanges]) -> dict[str, ViewRows]:
        """The changed rows of every view, in codes of the pool."""
        run = EpochRun(self._store, self._program, _ALONE, "engine")
        run.apply_changes(sources)
        run.advance()
        return run.views

    def operations(self) -> dict[str, Any]:
        """What a step runs: DeltaViews by `table:NAME`, operations by node id. They are there after a step."""
        return {**{f"table:{t}": d for t, d in self._store.delta_views.items()}, **self._store.operations}

    def sweep(self) -> None:
        """Free text that no state holds: changes encoded and rows emitted before are not to be used any more."""
        self._store.sweep()

    def contents(self, view: str) -> pa.Table:
        """The view's rows as readers see them, made from the state of its last stateful operation."""
        node = self._program.plan.outputs[view]
        assert isinstance(node.spec, Output)
        run = EpochRun(self._store, self._program, _ALONE, "engine")
        rows = run.full_contents(node)
        fields, times = node.fields, rows.weights
        if node.spec.bag:
            fields, times = fields[:-1], times * rows.columns[-1].codes
        arrays = [from_column(f.type, c, self.pool) for f, c in zip(fields, rows.columns)]
        table = pa.Table.from_arrays(arrays, names=[f.name for f in fields])
        return table.take(pa.array(np.repeat(np.arange(len(rows)), times)))

    def memory_bytes(self) -> int:
        return sum(self._store.memory_bytes().values())
