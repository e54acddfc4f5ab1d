"""Catalog versions compiled to programs: every view planned, the plans merged into one (design section 4)."""

from __future__ import annotations

from vms.errors import UnknownName
from vms.maintenance.record import Program
from vms.model.catalog import Catalog, ViewDefinition
from vms.plan.frontend import ViewPlan, plan_view
from vms.plan.plan import MaintenancePlan


class Programs:
    """Compiles each version once. The result depends on the catalog alone, so every process has the same."""

    def __init__(self) -> None:
        self._programs: dict[tuple[int, frozenset[str]], Program] = {}
        #: Each plan with the views that it reads, by the versions that brought them.
        self._plans: dict[tuple[str, str, str], tuple[ViewPlan, set[ViewDefinition]]] = {}

    def plan(self, catalog: Catalog, name: str, sql: str) -> ViewPlan:
        """The plan of one view over the catalog's tables and the views that were there before it."""
        key = (name, sql, repr(catalog.tables))
        if key in self._plans:
            plan, read = self._plans[key]
            if all(catalog.views.get(v.name) == v for v in read):
                return plan
        plan = self._planned(catalog, name, sql)
        self._plans[key] = plan, {catalog.views[v] for v in plan.views}
        return plan

    def _planned(self, catalog: Catalog, name: str, sql: str) -> ViewPlan:
        """Only earlier views are read: no later one changes what a name means, and none comes to read itself."""
        known = catalog.views[name].created if name in catalog.views else catalog.version + 1
        earlier = {v.name: v for v in catalog.views.values() if v.created < known}
        views: dict[str, ViewPlan] = {}
        while True:
            try:
                return plan_view(name, sql, catalog.tables, views=views)
            except UnknownName as error:
                if error.kind != "table or view":
                    raise
                if error.name not in earlier or error.name in views:
                    raise UnknownName(error.kind, error.name, [*catalog.tables, *earlier]) from None
                view = earlier[error.name]
                views[view.name] = self.plan(catalog, view.name, view.sql)

    def program(self, catalog: Catalog, generation: int | None = None) -> Program:
        """What the catalog means to the core, in a generation of the views."""
        settled = frozenset(t.name for t in catalog.tables.values() if t.images and t.images == generation)
        key = catalog.version, settled
        if key not in self._programs:
            plans = [self.plan(catalog, v.name, v.sql).plan for v in catalog.views.values()]
            created = {v.name: v.created for v in catalog.views.values()}
            merged = MaintenancePlan.merge(plans)
            queued = {t for v in catalog.builds.values() for t in self.plan(catalog, v.name, v.sql).plan.sources}
            self._programs[key] = Program(
                catalog.version,
                catalog.tables,
                merged,
                created,
                settled,
                {v.name: v.created for v in catalog.builds.values()},
                frozenset(queued),
                {v.name: v.load for v in catalog.views.values() if v.load is not None},
            )
        return self._programs[key]
