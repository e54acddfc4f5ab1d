"""Views run over a history by one member and by three, between which slots move, beside both oracles."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import reject
from random_views import TABLES, View

from vms.errors import UnsupportedSql
from vms.maintenance.engine import Engine
from vms.maintenance.virtual_store import ALL_SLOTS
from vms.model.changes import Int64
from vms.plan.frontend import plan_view
from vms.plan.plan import MaintenancePlan
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle, beyond_datafusion
from vms.testing.plan_run import SWEEP_ALWAYS, Members, Rows, ViewTable, row_changes

DATAFUSION, DUCK = DataFusionOracle(), DuckOracle()


def planned(name: str, sql: str) -> MaintenancePlan:
    """The plan; a view that can hold no row is refused and tells nothing here."""
    try:
        return plan_view(name, sql, TABLES).plan
    except UnsupportedSql as refusal:
        if "never true" not in str(refusal):
            raise
        reject()


def assert_views_equal_both_oracles(definitions: Sequence[View], history, slots: Sequence[Int64]) -> None:
    """After every step each view, its table on one member and on three, and its contents equal the oracles'.

    `history`: changes of each table, step by step. `slots`: the slot map of each step.
    """
    named = {f"v{i}": view for i, view in enumerate(definitions)}
    plan = MaintenancePlan.merge(planned(name, view.sql) for name, view in named.items())
    engine, members = Engine(plan, TABLES), Members(plan, TABLES, slots[0])
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
            where = f"{view.sql}\nstep {number}"
            expected = DUCK.evaluate(view.duck_sql, rows)
            if not beyond_datafusion(view.sql):
                theirs, expected = expected, DATAFUSION.evaluate(view.exact or view.sql, rows)
                assert_same_rows(expected, theirs, f"the oracles about {where}")
            assert_same_rows(alone[name].arrow(), expected, where)
            assert_same_rows(members.tables[name].arrow(), expected, f"three members: {where}")
            assert_same_rows(engine.contents(name), expected, f"contents: {where}")
        engine.sweep()
