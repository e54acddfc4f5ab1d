"""Who is told of the changes of views, and when: after the commit of the epoch, never before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa

from vms.errors import VmsError
from vms.maintenance.messages import WriteRows
from vms.model.catalog import Catalog
from vms.model.text import TextPool
from vms.plan.plan import MaintenancePlan
from vms.viewtable.layout import ViewLayout


class Watcher(Protocol):
    """Is told of the changes of one view, in the manager's thread, so it must not wait for anything."""

    #: The view, by the catalog version that brought it.
    view: str
    created: int

    def changed(self, epoch: int, rows: pa.Table) -> None:
        """The epoch is committed; the rows are those of `ViewLayout.changes` that were written here."""

    def end(self, failure: VmsError | None) -> None:
        """Nothing more will come: the view was dropped or the manager stopped, or failed."""


class Subscriptions:
    """The watchers of one process. `changed`: the condition that its epochs notify."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._watchers: list[Watcher] = []
        #: Changed rows of the watched views, from the write of an epoch to its commit; None outside of that.
        self._written: dict[str, list[pa.Table]] | None = None

    def add(self, watcher: Watcher, check: Callable[[], None]) -> None:
        """Tell it of every epoch that a read from now on does not hold yet; `check` raises where none will come."""
        with self._changed:
            while self._written is not None:
                check()
                self._changed.wait(0.05)  # this epoch was written without it: let it become readable first
            check()
            self._watchers.append(watcher)

    def remove(self, watcher: Watcher) -> None:
        with self._changed:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

    def written(self, effect: WriteRows, plan: MaintenancePlan, pool: TextPool) -> None:
        """These rows are in the view tables.

        They are decoded now: with the commit the member may forget the text of rows that are gone.
        """
        with self._changed:
            if self._written is None:
                self._written = {}
            for view in {w.view for w in self._watchers} & effect.views.keys():
                rows = ViewLayout(plan.outputs[view]).changes(effect.views[view], pool)
                self._written.setdefault(view, []).append(rows)

    def committed(self, epoch: int, catalog: Catalog) -> None:
        """Tell who watches of the epoch; those whose view is gone are told so."""
        views = catalog.views
        with self._changed:
            written, self._written = self._written or {}, None
            gone = [w for w in self._watchers if w.view not in views or views[w.view].created != w.created]
            self._watchers = [w for w in self._watchers if w not in gone]
            watchers = list(self._watchers)
            self._changed.notify_all()
        self._tell(epoch, watchers, written)
        for watcher in gone:
            watcher.end(None)

    @staticmethod
    def _tell(epoch: int, watchers: list[Watcher], written: Mapping[str, list[pa.Table]]) -> None:
        for watcher in watchers:
            rows = written.get(watcher.view, [])
            if sum(part.num_rows for part in rows):
                watcher.changed(epoch, pa.concat_tables(rows))

    def stop(self, failures: Mapping[str, VmsError]) -> None:
        """Nothing more will come for who watches these views."""
        with self._changed:
            ended = [w for w in self._watchers if w.view in failures]
            self._watchers = [w for w in self._watchers if w not in ended]
        for watcher in ended:
            watcher.end(failures[watcher.view])

    def end(self, failure: VmsError | None) -> None:
        """Nothing more will come for anybody."""
        with self._changed:
            watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.end(failure)
