"""Whole plans: random views over random histories, equal to both oracles after every step.

The same plans are run by one member and by three, between which slots move: what they emit must agree.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from random_views import TABLES, Event, Rows, View, histories, row_changes, slot_maps, views

from vms.errors import UnsupportedSql
from vms.maintenance.engine import Engine
from vms.maintenance.epoch_run import EpochRun
from vms.maintenance.messages import ViewRows
from vms.maintenance.record import Program
from vms.maintenance.virtual_store import ALL_SLOTS, VirtualStore, read_columns
from vms.model.arrow import from_column
from vms.model.changes import Changes, Int64
from vms.model.ring import Ring
from vms.model.text import TextPool
from vms.plan.frontend import plan_view
from vms.plan.plan import MaintenancePlan, Node, Output
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle

DATAFUSION, DUCK = DataFusionOracle(), DuckOracle()
MEMBERS = ("a", "b", "c")
#: Text is freed after every step, not only when there is much of it.
SWEEP_ALWAYS = -(10**9)
Stamped = Mapping[str, list[tuple[Event, int]]]


class ViewTable:
    """What a view table holds after the rows that were written to it."""

    def __init__(self, output: Node) -> None:
        assert isinstance(output.spec, Output)
        self._output, self._spec = output, output.spec
        self._rows: dict[tuple, tuple] = {}

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

    def _key(self, row: tuple) -> tuple:
        return tuple(repr(row[k]) for k in self._spec.key)

    def _tuples(self, rows: Changes, pool: TextPool) -> list[tuple]:
        columns = [from_column(f.type, c, pool).to_pylist() for f, c in zip(self._output.fields, rows.columns)]
        return list(zip(*columns)) if columns else [()] * len(rows)


class Members:
    """Several members that run each epoch of one plan together, in one process."""

    def __init__(self, plan: MaintenancePlan, owners: Int64) -> None:
        self._program = Program(1, TABLES, plan)
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

    def _sources(self, member: str, changes: Stamped):
        store, owned = self._stores[member], self._ring.owned(member)
        columns = {t: read_columns(TABLES[t], self._program.plan) for t in self._program.plan.sources}
        return {t: row_changes(TABLES[t], c, changes[t], store.pool, owned) for t, c in columns.items()}


def planned(name: str, sql: str) -> MaintenancePlan:
    """The plan; a view that can hold no row is refused and tells nothing here."""
    try:
        return plan_view(name, sql, TABLES).plan
    except UnsupportedSql as refusal:
        if "never true" not in str(refusal):
            raise
        reject()


@settings(deadline=None, max_examples=100)
@given(
    st.lists(views(), min_size=2, max_size=2),
    histories(),
    st.lists(slot_maps(len(MEMBERS)), min_size=4, max_size=4),
)
def test_views_equal_both_oracles_on_one_member_and_on_three(definitions: list[View], history, slots):
    named = {f"v{i}": view for i, view in enumerate(definitions)}
    plan = MaintenancePlan.merge(planned(name, view.sql) for name, view in named.items())
    engine, members = Engine(plan, TABLES), Members(plan, slots[0])
    engine.pool.slack = SWEEP_ALWAYS
    alone = {name: ViewTable(plan.outputs[name]) for name in named}
    base = {name: Rows(table) for name, table in TABLES.items()}
    for number, step in enumerate(history):
        changes = {name: base[name].apply(events) for name, events in step.items()}
        sources = {
            t: row_changes(TABLES[t], engine.source_columns(t), changes[t], engine.pool, ALL_SLOTS)
            for t in plan.sources
        }
        if number:
            members.move(slots[number])
        members.step(changes)
        emitted = engine.step(sources)
        rows = {name: table.arrow() for name, table in base.items()}
        for name, view in named.items():
            alone[name].write(emitted[name], engine.pool)
            expected = DATAFUSION.evaluate(view.sql, rows)
            where = f"{view.sql}\nstep {number}"
            assert_same_rows(alone[name].arrow(), expected, where)
            assert_same_rows(expected, DUCK.evaluate(view.duck_sql, rows), f"the oracles about {where}")
            assert_same_rows(members.tables[name].arrow(), expected, f"three members: {where}")
            assert_same_rows(engine.contents(name), expected, f"contents: {where}")
        engine.sweep()
