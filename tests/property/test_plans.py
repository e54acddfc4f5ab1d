"""Whole plans: random views over random histories, equal to both oracles after every step.

The same plans are run by one member and by three, between which slots move: what they emit must agree.
"""

from __future__ import annotations

from hypothesis import given, reject, settings
from hypothesis import strategies as st
from random_views import TABLES, View, histories, slot_maps, views

from vms.errors import UnsupportedSql
from vms.maintenance.engine import Engine
from vms.maintenance.virtual_store import ALL_SLOTS
from vms.plan.frontend import plan_view
from vms.plan.plan import MaintenancePlan
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle
from vms.testing.plan_run import MEMBERS, SWEEP_ALWAYS, Members, Rows, ViewTable, row_changes

DATAFUSION, DUCK = DataFusionOracle(), DuckOracle()


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
            expected = DATAFUSION.evaluate(view.sql, rows)
            where = f"{view.sql}\nstep {number}"
            assert_same_rows(alone[name].arrow(), expected, where)
            assert_same_rows(expected, DUCK.evaluate(view.duck_sql, rows), f"the oracles about {where}")
            assert_same_rows(members.tables[name].arrow(), expected, f"three members: {where}")
            assert_same_rows(engine.contents(name), expected, f"contents: {where}")
        engine.sweep()
