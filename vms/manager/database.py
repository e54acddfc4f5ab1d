"""The API: `vms.connect("embedded:PATH")` (README has examples).

A Database is a whole VMS in one process: a store, its change stream, and one View Manager.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from vms.clock import wall_ms
from vms.errors import StoreUnavailable, UserError, ViewTooOld
from vms.maintenance.record import ReadPoint
from vms.manager.backend import Backend, EmbeddedBackend
from vms.manager.following import Following
from vms.manager.gate import Gate
from vms.manager.remote import RemoteRuntime
from vms.manager.runtime import Runtime
from vms.manager.settler import Settler, settle
from vms.manager.view import View
from vms.model.catalog import USUAL_FORM, Catalog, ViewForm
from vms.model.changes import UNDECODABLE
from vms.model.table import HIDDEN_KEY, BaseTable
from vms.model.token import Token
from vms.plan.explain import Running, explain, explain_data
from vms.plan.frontend import ViewPlan
from vms.stream.decode import read_rows
from vms.viewtable.reader import overdue, read_views

#: Seconds between epochs. On HBase not higher, because a region server has several batches of its log under way, one
#: of them here, and each is acknowledged with an epoch: a change is about four epochs old when it is readable. Not
#: lower, or small epochs would cost more than their rows.
_INTERVALS = {"embedded": 0.1, "hbase": 0.025}
#: How long a read waits for an epoch of a day ago, which a View Manager that has just begun ends first of all.
_OVERDUE_SECONDS = 60.0


def connect(
    address: str,
    *,
    log: str = "local",
    epoch_interval: float | None = None,
    manage: bool = False,
    folder: str | Path | None = None,
    listen: str | None = None,
    tls: str | Path | None = None,
) -> Database:
    """Open (or create) a database; `address` is `embedded:PATH`, or `hbase:HOST:PORT`.

    `log`: `local` keeps the transaction log beside the store; `off` keeps none, and views are rebuilt from the
    base tables at the next start. `epoch_interval`: seconds between epochs while changes come in, by default 0.1,
    on HBase 0.025.

    On HBase, the View Managers are processes of their own (`vms manager run`; `tls` is the folder of certificates,
    where they ask for them). `manage` makes this process a View Manager, the only one. Its log is in `folder`
    (default: one for each HBase in `$VMS_HOME`, or in ~/.vms); `listen` is HOST or HOST:PORT where region servers
    reach it.
    """
    kind, _, path = address.partition(":")
    if kind not in ("embedded", "hbase") or not path:
        raise UserError(
            f"{address!r} is not an address; write embedded:PATH, for example embedded:./vms-data, or hbase:HOST:PORT"
        )
    if log not in ("local", "off"):
        raise UserError(f"log {log!r} is not known; it is local or off")
    if epoch_interval is None:
        epoch_interval = _INTERVALS[kind]
    if not epoch_interval > 0:
        raise UserError(f"epoch_interval {epoch_interval!r} is no time between epochs; it is more than 0 seconds")
    if kind == "embedded":
        return Database(EmbeddedBackend(Path(path), log=log), epoch_interval=epoch_interval)
    if not manage:
        from vms.manager.hbase_client import open_client

        return open_client(address, tls)
    from vms.manager.hbase_backend import HBaseBackend, default_folder
    from vms.store.hbase_address import HBaseAddress

    place = HBaseAddress.parse(address)
    backend = HBaseBackend(place, folder=Path(folder or default_folder(place)), log=log, listen=listen)
    return Database(backend, epoch_interval=epoch_interval)


class Database:
    """One database and its View Manager. Close it, or use it as a context manager."""

    def __init__(self, backend: Backend, *, epoch_interval: float = 0.1, remote: RemoteRuntime | None = None) -> None:
        """`remote`: the View Managers are other processes; without it, one is in this process."""
        self.backend, self.store, self.clock = backend, backend.store, backend.clock
        self._coordination = backend.coordination
        #: Every write of this object passes here.
        self.writes = Gate()
        self._session = Token()
        self._closed = False
        try:
            self.remote = remote
            self.runtime: Following = remote or Runtime(
                self.store,
                backend.source,
                self._coordination,
                backend.log,
                epoch_interval=epoch_interval,
                now_ms=self.clock.now,
            )
            self.runtime.start()
            try:
                if isinstance(self.runtime, Runtime):
                    backend.started(self.runtime)
            except BaseException:
                self.runtime.stop()
                raise
        except BaseException:
            backend.close()
            raise
        settles = backend.has_images and isinstance(self.runtime, Runtime)
        self._settler = Settler(self.settle_images) if settles else None

    @property
    def manager(self) -> Runtime:
        """The View Manager in this process."""
        if not isinstance(self.runtime, Runtime):
            raise UserError("the View Managers are other processes; this is for a database with one of its own")
        return self.runtime

    @property
    def address(self) -> str:
        """What `vms.connect` takes."""
        return self.backend.address

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Finish the epoch under way, take a checkpoint, let go of the files. Twice is fine."""
        if not self._closed:
            self._closed = True
            if self._settler is not None:
                self._settler.close()
            self.runtime.stop()
            self.backend.close()

    # --- definitions -----------------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        return self._coordination.catalog()

    def create_table(self, table: BaseTable) -> str:
        """Declare it; what is to be known of its place in the store, or nothing."""
        before = self.catalog
        after = before.with_table(table)
        note = self.backend.create_table(table)
        self._coordination.change_catalog(before, after)
        return note

    def drop_table(self, name: str) -> None:
        before = self.catalog
        after = before.without_table(name, self.readers(name))
        self.change_catalog(before, after)
        self.backend.drop_table(name)

    def create_view(self, name: str, sql: str, form: ViewForm = USUAL_FORM) -> ViewPlan:
        """Register the view and wait until it is there, whatever its tables hold already."""
        before = self.catalog
        after = before.with_view(name, sql, form)
        plan = self.runtime.programs.plan(before, name, sql)
        self.backend.check_view(after.views[name], plan.plan.sources)
        self.change_catalog(before, after)
        return plan

    def drop_view(self, name: str) -> None:
        before = self.catalog
        self.change_catalog(before, before.without_view(name, self.readers(name)))

    def use_images(self, table: str, jar: str | None = None) -> None:
        """Let every change of the table carry the rows before and after it: no more is remembered of it then.

        `jar`: where the region servers find the plug-in; by default it is built on this machine.
        """
        self.backend.attach_images(self.catalog.table(table), jar)
        before = self.catalog
        self.change_catalog(before, before.with_images(table, -1))
        self.settle_images()

    def settle_images(self, stop: threading.Event | None = None) -> None:
        """Go by the images where changes carry them, and forget what else is held of the tables, as soon as that is
        possible: when the stream has passed what came without images, and what was read of the tables."""
        settle(self._coordination, self.runtime, lambda: self.wait(self.latest()), stop)

    def rebuild_view(self, name: str) -> list[str]:
        """Make the view anew from its tables, and every other view with it; returns the names of all.

        Until that is done, reads go on as before; a view that a gap had stopped can be read afterwards.
        """
        self.catalog.view(name)
        self.backend.renew(list(self.catalog.tables.values()))
        self.runtime.rebuild(f"rebuild of view {name} was asked for")
        return list(self.catalog.views)

    def change_catalog(self, before: Catalog, after: Catalog) -> None:
        """Make it the newest, and wait until an epoch of it is committed."""
        self._coordination.change_catalog(before, after)
        self.runtime.wait(lambda: self.runtime.readable.point.catalog >= after.version)

    def readers(self, name: str) -> list[str]:
        """The views that read the table or view, themselves or through others, oldest first; also unfinished ones."""
        found: list[str] = []
        catalog = self.catalog
        for view in sorted((*catalog.views.values(), *catalog.builds.values()), key=lambda v: v.created):
            plan = self.runtime.programs.plan(catalog, view.name, view.sql)
            if name in plan.tables or {name, *found} & set(plan.views):
                found.append(view.name)
        return found

    def plan(self, view: str) -> ViewPlan:
        """The maintenance plan of a registered view."""
        definition = self.catalog.view(view)
        return self.runtime.programs.plan(self.catalog, view, definition.sql)

    def explain(self, view_or_sql: str) -> str:
        """The maintenance plan of a view, or of a SELECT that could become one; of a view also who shares its
        operations, and their memory."""
        return explain(*self._explained(view_or_sql))

    def explain_data(self, view_or_sql: str) -> dict[str, Any]:
        """What `explain` says, as plain values."""
        return explain_data(*self._explained(view_or_sql))

    def _explained(self, view_or_sql: str) -> tuple[ViewPlan, Running | None]:
        from vms.manager.sharing import running

        name = view_or_sql.strip().lower()
        if name in self.catalog.views:
            return self.plan(name), running(self, name)
        if " " not in name:
            self.catalog.view(name)
        return self.runtime.programs.plan(self.catalog, "explained", view_or_sql), None

    # --- rows ------------------------------------------------------------------------------------------------

    def put(self, table: str, rows: pa.Table, *, whole: bool = True) -> Token:
        """Write rows; one that has the key of an existing row replaces it.

        With `whole=False` only the given columns are written, as an UPDATE does. Returns the token of the write.
        """
        definition, rows = self.catalog.table(table), _arrow(rows)
        if definition.hidden_key and HIDDEN_KEY not in rows.column_names:
            ids = pa.array([uuid.uuid4().hex for _ in range(rows.num_rows)], pa.string())
            rows = rows.append_column(HIDDEN_KEY, ids)
        stamps = self._stamps(definition, rows)
        return self._write(table, self.backend.encoder(definition).puts(rows, stamps, whole=whole))

    def delete(self, table: str, keys: pa.Table) -> Token:
        """Delete the rows of these keys; keys that are not there are fine."""
        definition = self.catalog.table(table)
        return self._write(table, self.backend.encoder(definition).deletes(_arrow(keys), self.clock.stamps(1)))

    def _stamps(self, table: BaseTable, rows: pa.Table) -> int | np.ndarray:
        """One stamp for all rows, or rising ones where a key comes more than once: the last one must win."""
        if any(k not in rows.column_names for k in table.key):
            return self.clock.stamps(1)
        counts = rows.select(list(table.key)).group_by(list(table.key)).aggregate([([], "count_all")])
        if counts.num_rows == rows.num_rows:
            return self.clock.stamps(1)
        first = self.clock.stamps(rows.num_rows)
        return first + 2 * np.arange(rows.num_rows, dtype=np.int64)

    def _write(self, table: str, mutations: list) -> Token:
        with self.writes.passing():
            token = self.backend.token(table, mutations, self.store.mutate(table, mutations))
        self._session = self._session | token
        return token

    def scan(self, table: str) -> pa.Table:
        """The table's rows as they are now, in key order; rows that cannot be decoded are left out."""
        definition = self.catalog.table(table)
        snapshot = self.store.snapshot(table)
        try:
            rows, _ = read_rows(definition, snapshot.scan())
        finally:
            snapshot.close()
        good = rows.column("_kind").to_numpy(zero_copy_only=False) != UNDECODABLE
        return pa.table(rows.filter(pa.array(good))).select([c.name for c in definition.columns])

    def view(self, name: str) -> View:
        """A handle on a registered view."""
        return View(self, self.catalog.view(name))

    def read_together(self, names: Sequence[str]) -> tuple[list[pa.Table], int]:
        """All rows of several views as of one committed epoch, and that epoch."""
        views = [self.view(name) for name in names]
        for view in views:
            view.check_readable()
        takes = [(view.layout.table, view.table_at) for view in views]
        return read_views(self.store, takes, self.read_point, self.unhurried)

    def unhurried(self) -> AbstractContextManager[None]:
        """While a read is under way that epochs had overtaken."""
        return self.runtime.unhurried() if isinstance(self.runtime, Runtime) else nullcontext()

    def read_point(self) -> tuple[ReadPoint, int]:
        """What readers may see, and how many epochs were committed before it."""
        if overdue(self.runtime.record, wall_ms()) and not self._epoch_ends():
            raise ViewTooOld(
                "an epoch began about a day ago and did not end; rows that it has deleted may be purged, and without "
                "them the epoch before it cannot be read. It is ended by a View Manager: see that one runs (vms status)"
            )
        readable = self.runtime.readable
        return readable.point, readable.epochs

    def _epoch_ends(self) -> bool:
        """Wait for whoever ends an epoch that is overdue."""
        try:
            return self.runtime.wait(lambda: not overdue(self.runtime.record, wall_ms()), _OVERDUE_SECONDS)
        except StoreUnavailable:
            return False

    @property
    def session(self) -> Token:
        """Everything written through this object so far, but for what every read holds already."""
        return self._session

    def latest(self) -> Token:
        """Everything written by anybody so far."""
        return self.backend.latest(list(self.catalog.tables))

    def wait(self, token: Token, timeout: float | None = None) -> bool:
        """Until every view covers the token."""
        if isinstance(self.runtime, RemoteRuntime):
            done = self.runtime.reach(token, timeout)
        else:
            positions = self.backend.resolve(token, self.catalog.tables)
            done = self.runtime.wait(lambda: self.manager.covers(positions), timeout)
        if done and token is self._session:
            self._session = Token()
        return done

    def sql(self, text: str) -> pa.Table | None:
        """Run statements; the result of the last SELECT, if there was one."""
        from vms.manager.statements import run

        result = None
        for statement in run(self, text):
            if statement.table is not None:
                result = statement.table
        return result

    def dead_letters(self) -> pa.Table:
        """What could not be decoded: table, row, column, region, seq, ts, value, reason."""
        return self.runtime.dead.read()

    def status(self) -> dict[str, Any]:
        """What an operator looks at first; plain values."""
        from vms.manager.status import status

        return status(self)


def _arrow(rows: pa.Table | pa.RecordBatch) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        raise UserError(f"rows are given as a pyarrow.Table, not as {type(rows).__name__}; see pyarrow.table()")
    return rows
