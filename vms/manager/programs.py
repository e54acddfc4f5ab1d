"""Catalog versions compiled to programs: every view planned, the plans merged into one (design section 4)."""

from __future__ import annotations

from vms.errors import UnknownName, UnsupportedSql
from vms.maintenance.record import Program
from vms.model.catalog import Catalog
from vms.plan.frontend import ViewPlan, plan_view
from vms.plan.plan import MaintenancePlan


class Programs:
    """Compiles each version once. The result depends on the catalog alone, so every process has the same."""

    def __init__(self) -> None:
        self._programs: dict[int, Program] = {}
        self._plans: dict[tuple[str, str, str], ViewPlan] = {}

    def plan(self, catalog: Catalog, name: str, sql: str) -> ViewPlan:
        """The plan of one view over the catalog's tables."""
        key = (name, sql, repr(catalog.tables))
        if key not in self._plans:
            try:
                self._plans[key] = plan_view(name, sql, catalog.tables)
            except UnknownName as error:
                if error.name not in catalog.views:
                    raise
                advice = "put its SELECT in brackets into FROM: what two views have in common is kept once"
                raise UnsupportedSql(f"reading the view {error.name}", advice) from None
        return self._plans[key]

    def program(self, catalog: Catalog) -> Program:
        """What the catalog means to the core."""
        if catalog.version not in self._programs:
            plans = [self.plan(catalog, v.name, v.sql).plan for v in catalog.views.values()]
            created = {v.name: v.created for v in catalog.views.values()}
            merged = MaintenancePlan.merge(plans)
            self._programs[catalog.version] = Program(catalog.version, catalog.tables, merged, created)
        return self._programs[catalog.version]
