"""What is asked of one view: reads, and being told of its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from vms.errors import UserError, ViewBuilding, ViewHasErrors
from vms.maintenance.record import ReadPoint
from vms.manager.gaps import Gap, view_stopped
from vms.manager.watch import Watch
from vms.model.catalog import ViewDefinition
from vms.model.token import Token
from vms.viewtable.layout import ViewLayout
from vms.viewtable.reader import read_view

if TYPE_CHECKING:
    from vms.manager.database import Database


class View:
    """A registered view. Reads are whole: every row is of the same committed epoch."""

    def __init__(self, db: Database, definition: ViewDefinition) -> None:
        self._db, self.definition = db, definition
        self._plan = db.plan(definition.name)
        self.layout = ViewLayout(self._plan.plan.outputs[definition.name], definition.form)

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def schema(self) -> pa.Schema:
        return self.layout.schema

    def read(self, level: str = "any", token: Token | None = None, timeout: float | None = None) -> pa.Table:
        """All rows.

        `any`: as of the newest committed epoch. `critical`: not before the writes of `token` are in it (without
        one: the writes of this Database object). `latest`: not before everything written until now is in it.
        """
        if level not in ("any", "critical", "latest"):
            raise UserError(f"read level {level!r} is not known; it is any, critical or latest")
        if level != "any":
            wanted = self._db.latest() if level == "latest" else token or self._db.session
            if not self._db.wait(wanted, timeout):
                raise ViewBuilding(f"view {self.name} did not reach the wanted writes in {timeout} s; read it later")
        self.check_readable()
        rows, _ = read_view(self._db.store, self.layout.table, self.table_at, self._db.read_point, self._db.unhurried)
        return rows

    def check_readable(self) -> None:
        """Raises where what a read gives would not be right."""
        self._check_gaps()
        count, text = self._db.runtime.readable.errors.get(self.name, (0, None))
        if count:
            failing = "1 row that fails" if count == 1 else f"{count} rows that fail"
            raise ViewHasErrors(f"view {self.name} has {failing}: {text}; mend or delete the base rows")

    @property
    def gap(self) -> Gap | None:
        """What stopped the view: something happened to a table that its stream does not tell."""
        gaps = self._db.runtime.readable.gaps
        return next((gaps[table] for table in self._plan.plan.sources if table in gaps), None)

    def _check_gaps(self) -> None:
        gap = self.gap
        if gap is not None:
            raise view_stopped(self.name, gap)

    def count(self) -> int:
        """How many rows the view has as of the newest committed epoch."""
        return read_view(self._db.store, self.layout.count, self.table_at, self._db.read_point, self._db.unhurried)[0]

    def table_at(self, point: ReadPoint) -> str:
        """Its table at this point; raises where the view is not the one that this is a handle on."""
        if self._db.catalog.view(self.name) != self.definition:
            raise UserError(f"view {self.name} was dropped and made again; get it once more with db.view()")
        return self.definition.table(point.generation)

    def watch(self, timeout: float | None = None) -> Watch:
        """Each committed epoch that changes the view: its id and the changed rows.

        Column `_change` is +1 for a row's new content, -1 for a row that is gone; an update is +1 of the new.
        Begins with the call, not with the first look. Ends when nothing changed for `timeout` seconds.
        """
        watch = Watch(self._db.runtime, self.definition, timeout)
        self._check_gaps()  # one that comes from here on ends the watch
        return watch
