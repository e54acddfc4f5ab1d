"""A plan run step by step over the rows of some tables, by several members in one process: for tests of whole plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from vms.kernels.hashing import slot_of
from vms.maintenance.epoch_run import EpochRun
from vms.maintenance.messages import ViewRows
from vms.maintenance.record import Program
from vms.maintenance.virtual_store import VirtualStore, read_columns
from vms.model.arrow import from_column, to_column
from vms.model.changes import DELETE_ROW, PUT, Bool, Changes, Int64, RowChanges
from vms.model.ring import Ring
from vms.model.table import BaseTable
from vms.model.text import TextPool
from vms.plan.plan import MaintenancePlan, Node, Output

MEMBERS = ("a", "b", "c")
#: Text is freed after every step, not only when there is much of it.
SWEEP_ALWAYS = -(10**9)

Key = tuple[Any, ...]
Row = dict[str, Any]


@dataclass
class Event:
    """A put of some or all value columns of a row, or (no `cells`) a delete of the row."""

    key: Key
    cells: Row | None


@dataclass
class Rows:
    """What a table holds, and the changes that brought it there, with rising timestamps."""

    table: BaseTable
    rows: dict[Key, Row] = field(default_factory=dict)
    clock: int = 0

    def apply(self, events: list[Event]) -> list[tuple[Event, int]]:
        """Make the changes; returns each with its timestamp."""
        stamped = []
        for event in events:
            self.clock += 1
            stamped.append((event, self.clock))
            if event.cells is None:
                self.rows.pop(event.key, None)
            else:
                empty = {c.name: None for c in self.table.value_columns}
                self.rows[event.key] = {**self.rows.get(event.key, empty), **event.cells}
        return stamped

    def arrow(self) -> pa.Table:
        """The visible columns, as the oracles take them."""
        rows = [{**dict(zip(self.table.key, key)), **row} for key, row in self.rows.items()]
        shown = self.table.visible_columns
        arrays = [pa.array([r[c.name] for r in rows], c.type.arrow) for c in shown]
        return pa.Table.from_arrays(arrays, names=[c.name for c in shown])


def row_changes(
    table: BaseTable, columns: tuple[str, ...], stamped: list[tuple[Event, int]], pool: TextPool, owned: Bool
) -> RowChanges:
    """The changes of rows in these slots, as a DeltaView that reads `columns` takes them."""
    types = [c.type for c in table.key_columns]
    arrays = [pa.array([e.key[i] for e, _ in stamped], t.arrow) for i, t in enumerate(types)]
    keys = [to_column(t, a, pool) for t, a in zip(types, arrays)]
    mine = np.flatnonzero(owned[slot_of(keys, types, pool, len(stamped))])
    stamped = [stamped[i] for i in mine]
    bits = {c.name: 1 << i for i, c in enumerate(table.value_columns)}

    def values(name: str) -> pa.Array:
        return pa.array([(e.cells or {}).get(name) for e, _ in stamped], table.by_name[name].type.arrow)

    return RowChanges(
        tuple(k.take(mine) for k in keys),
        np.array([DELETE_ROW if e.cells is None else PUT for e, _ in stamped], np.int8),
        np.array([ts for _, ts in stamped], np.int64),
        np.array([0 if e.cells is None else (1 << 63) + sum(bits[c] for c in e.cells) for e, _ in stamped], np.uint64),
        tuple(to_column(table.by_name[n].type, values(n), pool) for n in columns),
    )


class ViewTable:
    """What a view table holds after the rows that were written to it."""

    def __init__(self, output: Node) -> None:
        assert isinstance(output.spec, Output)
        self._output, self._spec = output, output.spec
        self._rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def write(self, changed: ViewRows, pool: TextPool) -> None:
        """One put or delete of a key: what is deleted was there, as it is told."""
        deletes, puts = self._tuples(changed.deletes, pool), self._tuples(changed.puts, pool)
        for row in deletes:
            assert repr(self._rows.pop(self._key(row))) == repr(row)
        self._rows.update((self._key(row), row) for row in puts)
        assert len({self._key(row) for row in (*puts, *deletes)}) == len(puts) + len(deletes)

    def arrow(self) -> pa.Table:
        """The rows as a reader sees them."""
        fields = self._output.fields
        rows = list(self._rows.values())
        if self._spec.bag:
            rows, fields = [row[:-1] for row in rows for _ in range(row[-1])], fields[:-1]
        arrays = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in enumerate(fields)]
        return pa.Table.from_arrays(arrays, names=[f.name for f in fields])

    def _key(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(repr(row[k]) for k in self._spec.key)

    def _tuples(self, rows: Changes, pool: TextPool) -> list[tuple[Any, ...]]:
        columns = [from_column(f.type, c, pool).to_pylist() for f, c in zip(self._output.fields, rows.columns)]
        return list(zip(*columns)) if columns else [()] * len(rows)


#: The changes of each table, each with its timestamp.
Stamped = Mapping[str, list[tuple[Event, int]]]


class Members:
    """Several members that run each epoch of one plan together, in one process."""

    def __init__(self, plan: MaintenancePlan, tables: Mapping[str, BaseTable], owners: Int64) -> None:
        self._tables = tables
        self._program = Program(1, dict(tables), plan)
        self._stores = {m: VirtualStore() for m in MEMBERS}
        for store in self._stores.values():
            store.pool.slack = SWEEP_ALWAYS
        self._ring = Ring(1, MEMBERS, owners)
        self.tables = {view: ViewTable(node) for view, node in plan.outputs.items()}

    def step(self, changes: Stamped) -> None:
        """An epoch: all edges are delivered as soon as they are sent, some of them twice."""
        runs = {m: EpochRun(s, self._program, self._ring, m) for m, s in self._stores.items()}
        for member, run in runs.items():
            run.apply_changes(self._sources(member, changes))
        while not all(run.finished for run in runs.values()):
            for sender, run in runs.items():
                run.advance()
                for (edge, receiver), batch in run.sent.items():
                    runs[receiver].receive(edge, sender, batch)
        for view, table in self.tables.items():
            written = [run.views[view] for run in runs.values()]
            for rows, store in zip(written, self._stores.values()):
                table.write(ViewRows(rows.puts, Changes.empty(len(rows.puts.columns))), store.pool)
            for rows, store in zip(written, self._stores.values()):
                table.write(ViewRows(Changes.empty(len(rows.puts.columns)), rows.deletes), store.pool)
        for store in self._stores.values():
            store.sweep()

    def move(self, owners: Int64) -> None:
        """Another slot map: every member hands over what it no longer owns."""
        old, self._ring = self._ring, Ring(self._ring.version + 1, MEMBERS, owners)
        moving = []
        for sender, store in self._stores.items():
            lost = old.owned(sender) & ~self._ring.owned(sender)
            moving += [(m, store.export(lost & self._ring.owned(m))) for m in MEMBERS if m != sender]
            store.drop(lost)
        for receiver, state in moving:
            self._stores[receiver].load(state)

    def _sources(self, member: str, changes: Stamped) -> dict[str, RowChanges]:
        store, owned = self._stores[member], self._ring.owned(member)
        columns = {t: read_columns(self._tables[t], self._program.plan) for t in self._program.plan.sources}
        return {t: row_changes(self._tables[t], c, changes[t], store.pool, owned) for t, c in columns.items()}
