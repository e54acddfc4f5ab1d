"""The leader's part of a process: it moves the one record, with what the store and the views need for that."""

from __future__ import annotations

from collections.abc import Callable

from vms.maintenance.leader import Desired, Leader
from vms.maintenance.messages import LEADER, Message, StateLost
from vms.maintenance.record import Record
from vms.manager.coordination import Coordination
from vms.manager.neighbours import Neighbours
from vms.manager.programs import Programs
from vms.manager.view_tables import ViewTables


class Leading:
    """Gives the core's leader what it decides by, and does what it decides. Does nothing where others lead."""

    def __init__(
        self,
        coordination: Coordination,
        neighbours: Neighbours,
        programs: Programs,
        tables: ViewTables,
        *,
        now_ms: Callable[[], int],
        warn: Callable[[str], None],
    ) -> None:
        self._coordination, self._neighbours, self._programs, self._tables = coordination, neighbours, programs, tables
        self._now_ms, self._warn = now_ms, warn
        self._leader = Leader()

    def receive(self, message: Message) -> None:
        """A member's word to the leader."""
        self._leader.receive(message)

    def begin_anew(self) -> None:
        """Forget what members said: they say it again."""
        self._leader = Leader()

    def lead(self, record: Record, due: bool) -> Record | None:
        """Issue an epoch, if one is `due`, or commit it; the record that stands then. None: nothing was to be done."""
        if not self._neighbours.leads():
            return None
        desired = Desired(self._coordination.newest_ring(), self._coordination.catalog().version)
        if desired.ring == 0:
            return None
        gone = self._neighbours.lost(record)
        if gone is not None:
            self._warn(f"member {gone} is lost with its state: the views are rebuilt from their tables")
            self._leader.receive(StateLost(record.generation, record.epoch, gone))
            desired = Desired(self._coordination.newest_ring(), desired.catalog)
        if self._needs_rows(record, desired.catalog):
            self._leader.receive(StateLost(record.generation, record.epoch, LEADER))
        members = self._coordination.ring(record.ring).members if record.ring else ()
        step = self._leader.decide(record, members, desired, self._now_ms(), due)
        if step is None:
            return None
        if not step.record.committed:
            self._tables.create(step.record)
        changed = self._coordination.compare_and_set(step.expected, step.record)
        return step.record if changed else self._coordination.record()

    def _needs_rows(self, record: Record, version: int) -> bool:
        """Whether a view of this catalog is new and reads a table of which nothing is held: then all are built anew."""
        if not record.committed or not record.generation or version == record.catalog:
            return False
        catalog = self._coordination.catalog(version)
        settled = self._programs.program(catalog, record.generation).settled
        before = self._coordination.catalog(record.catalog).views
        new = [v for name, v in catalog.views.items() if before.get(name) != v] if settled else []
        return any(settled & self._programs.plan(catalog, v.name, v.sql).plan.sources.keys() for v in new)
