"""The tables of views in the store: there before an epoch writes to them, gone when nobody reads them any more."""

from __future__ import annotations

from vms.errors import InternalError
from vms.maintenance.record import ReadPoint, Record
from vms.manager.coordination import Coordination
from vms.store.base import ManagedStore
from vms.viewtable.layout import FAMILIES


class ViewTables:
    """For the leader alone: it makes and drops the tables of all members."""

    def __init__(self, store: ManagedStore, coordination: Coordination) -> None:
        self._store, self._coordination = store, coordination

    def create(self, record: Record) -> None:
        """The tables of every view of this record that are not there yet."""
        existing = set(self._store.tables())
        catalog = self._coordination.catalog(record.catalog)
        for view in (*catalog.views.values(), *catalog.builds.values()):
            if view.table(record.generation) not in existing:
                self._store.create_table(view.table(record.generation), FAMILIES)

    def drop_dead(self, read: ReadPoint) -> None:
        """Tables of dropped views and abandoned generations: nobody reads them after this commit."""
        for name in self._coordination.catalog(read.catalog).outlived(self._store.tables(), read.generation):
            if self._made_here(name):
                self._store.drop_table(name)

    def _made_here(self, table: str) -> bool:
        """Whether it is a view table of this VMS: the store may hold tables of others whose names look like one."""
        view, created, _ = table.rsplit(".", 2)
        try:
            catalog = self._coordination.catalog(int(created))
        except InternalError:
            return False
        found = catalog.views.get(view) or catalog.builds.get(view)
        return found is not None and found.created == int(created)
