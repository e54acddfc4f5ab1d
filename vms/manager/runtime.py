"""The View Manager's loop: carries events to the core and does what it asks (design sections 6 and 8).

One process, one member, and the leader beside it: a cluster of one with local links. Everything happens in one
thread, so the core needs no lock; other threads talk to it by the store, the record and `wake`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa

from vms.errors import InternalError, StoreError, VmsError
from vms.maintenance.leader import Desired, Leader
from vms.maintenance.member import Member
from vms.maintenance.messages import (
    LEADER,
    Acknowledge,
    Committed,
    CutStands,
    Effect,
    Event,
    LogReceived,
    ProposeCut,
    ReadRows,
    Received,
    ReceivedLogged,
    RecordChanged,
    RowsWritten,
    ScanTable,
    Send,
    StateLost,
    Superseded,
    Tick,
    Want,
    WriteRows,
)
from vms.maintenance.record import Definitions, ReadPoint, Record
from vms.manager.checkpoints import Checkpoints
from vms.manager.coordination import Coordination
from vms.manager.deadletters import DeadLetterTable
from vms.manager.gaps import Gap, Gaps, view_stopped
from vms.manager.intake import Intake
from vms.manager.log import TransactionLog
from vms.manager.programs import Programs
from vms.manager.recovery import recover
from vms.manager.store_io import read_keys, scan_table, write_views
from vms.model.catalog import Catalog
from vms.model.token import Token
from vms.store.base import ManagedStore
from vms.stream.base import Source, StreamBatch
from vms.viewtable.layout import FAMILIES, ViewLayout

_LOG = logging.getLogger("vms.manager")


class Readable(NamedTuple):
    """What readers go by, published as one: the read point, the epochs committed before it since the start, the
    failing rows of each view (how many, and one of them in words), and the tables whose views are not right."""

    point: ReadPoint
    epochs: int
    errors: Mapping[str, tuple[int, str | None]]
    gaps: Mapping[str, Gap]


class Watcher(Protocol):
    """Is told of the changes of one view, in the manager's thread, so it must not wait for anything."""

    #: The view, by the catalog version that brought it.
    view: str
    created: int

    def changed(self, epoch: int, rows: pa.Table) -> None:
        """The epoch is committed; the rows are those of `ViewLayout.changes`."""

    def end(self, failure: VmsError | None) -> None:
        """Nothing more will come: the view was dropped or the manager stopped, or failed."""


class Runtime:
    """One View Manager process over a store, its change stream, and what a cluster shares."""

    def __init__(
        self,
        store: ManagedStore,
        source: Source,
        coordination: Coordination,
        log: TransactionLog | None,
        *,
        member: str = "m1",
        epoch_interval: float = 0.1,
        now_ms: Callable[[], int],
    ) -> None:
        self.store, self.source, self.coordination = store, source, coordination
        self.programs, self.dead = Programs(), DeadLetterTable(store)
        self._log, self._now_ms, self._interval = log, now_ms, epoch_interval
        self._leader = Leader()
        self._events: deque[Event] = deque()
        self._gaps = Gaps(store)
        self._intake = Intake(source, self.dead, self._take_gap)
        self._last_issue = self._last_tick = 0.0
        self._watchers: list[Watcher] = []
        #: Changed rows of the watched views, from the write of an epoch to its commit; None outside of that.
        self._written: dict[str, pa.Table] | None = None
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._stop = self._ended = False
        self._failure: BaseException | None = None
        self._checkpoints: Checkpoints | None = None
        #: Why the views are being made anew from the base tables; None: they are not.
        self.rebuilding: str | None = None
        #: Why somebody wants them to be.
        self._rebuild_wanted: str | None = None
        #: What the operator should know, oldest first.
        self.warnings: list[str] = []
        self.epochs = 0
        self.memory: dict[str, int] = {}
        if coordination.newest_ring() == 0:
            coordination.add_ring([member])
        self.record = coordination.record()
        self.member = Member(member, log=log is not None)
        self.readable = Readable(self.record.read, 0, {}, {})
        self._tidied = (0, 0)
        self._load()
        self._publish()
        self._thread = threading.Thread(target=self._loop, name="vms-manager", daemon=True)

    def start(self) -> None:
        self._thread.start()

    # --- for other threads -----------------------------------------------------------------------------------

    def wait(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Until `done` holds after some commit. Epochs are issued without delay meanwhile."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not done():
                self._check()
                self.wake(hurry=True)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(0.05 if left is None else min(left, 0.05))
        self._check()
        return True

    def wake(self, *, hurry: bool = False) -> None:
        """Something changed: look at once."""
        if hurry:
            self._hurry.set()
        self.source.wake()

    def watch(self, watcher: Watcher) -> None:
        """Tell it of every epoch that a read from now on does not hold yet."""
        with self._changed:
            while self._written is not None and self._failure is None:
                self._changed.wait()  # this epoch was written without it: let it become readable first
            self._check()
            self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        with self._changed:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

    def rebuild(self, reason: str) -> None:
        """Make all views anew from their tables, in a new generation, and wait until they are there."""
        generation = self.readable.point.generation
        self._rebuild_wanted = reason
        self.wait(lambda: self.readable.point.generation > generation)

    def stop(self) -> None:
        """Finish the epoch under way, take a checkpoint if that pays, end the thread."""
        self._stop = True
        self.wake(hurry=True)
        if self._thread.is_alive():
            self._thread.join()
        if self._checkpoints is not None:
            self._checkpoints.close(self.member if self._failure is None else None)

    def _check(self) -> None:
        error = self._error()
        if error is not None:
            raise error from self._failure

    def _error(self) -> VmsError | None:
        """What ended the maintenance."""
        failure = self._failure
        if failure is None:
            return StoreError("the database was closed; open it again") if self._ended else None
        kind = StoreError if isinstance(failure, StoreError) else InternalError
        text = str(failure) if isinstance(failure, VmsError) else repr(failure)
        return kind(f"the views are not followed any more: {text}; close the database and open it again")

    # --- the loop --------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        try:
            while not self._stop or not self.record.committed:
                if not self.step():
                    self._rest()
        except BaseException as failure:
            self._failure = failure
            _LOG.error("%s", self._error(), exc_info=failure)
        with self._changed:
            self._ended = True
            watchers, self._watchers = self._watchers, []
            self._changed.notify_all()
        for watcher in watchers:
            watcher.end(self._error() if self._failure is not None else None)

    def _rest(self) -> None:
        """Until there may be something to do: within the interval only somebody in a hurry counts."""
        left = self._last_issue + self._interval - time.monotonic()
        if left > 0:
            self._hurry.wait(left)
        else:
            self.source.wait(self._interval)

    def step(self) -> bool:
        """Take in what is there and carry the epoch on; False if there is nothing to do now.

        Changes are taken in right before an epoch is issued, so that it holds all that has come until then:
        a source has one batch of a region under way at a time, and what comes behind it waits for the next.
        """
        due = self.record.committed and self._due()
        if self.record.committed and self._rebuild_wanted is not None:
            self.rebuilding, self._rebuild_wanted = self._rebuild_wanted, None
            self._leader.receive(StateLost(self.record.generation, self.record.epoch, self.member.id))
        if due:
            self._events.extend(self._intake.poll(self.coordination.catalog().tables))
        busy = bool(self._events)
        self._run_events()
        if time.monotonic() - self._last_tick >= self._interval:
            self._last_tick = time.monotonic()
            self._run(self.member.handle(Tick()))
            self._run_events()
        return self._lead(due) or busy

    def _due(self) -> bool:
        hurry = self._hurry.is_set()
        self._hurry.clear()
        return hurry or self._intake.behind or time.monotonic() - self._last_issue >= self._interval

    def _lead(self, due: bool) -> bool:
        desired = Desired(self.coordination.newest_ring(), self.coordination.catalog().version)
        members = self.coordination.ring(self.record.ring).members if self.record.ring else ()
        step = self._leader.decide(self.record, members, desired, self._now_ms(), due)
        if step is None:
            return False
        if not step.record.committed:
            self._last_issue = time.monotonic()
            self._create_view_tables(step.record)
        changed = self.coordination.compare_and_set(step.expected, step.record)
        self._record_changed(step.record if changed else self.coordination.record())
        return True

    def _record_changed(self, record: Record) -> None:
        if record.generation != self.record.generation and self._log is not None:
            self._log.create(self.member.id, record.generation)
            self._checkpoints = Checkpoints(self._log, self.member.id, record.generation, self.warn)
        self.record = record
        if record.committed:
            self.rebuilding = None
            self._publish()
        self._events.append(RecordChanged(record, self._resolve(record)))
        self._run_events()

    def _resolve(self, record: Record) -> Definitions:
        ring = self.coordination.ring(record.ring)
        moved = record.previous_ring != record.ring
        before = self.coordination.ring(record.previous_ring) if moved else None
        return Definitions(ring, before, self.programs.program(self.coordination.catalog(record.catalog)))

    def _run_events(self) -> None:
        while self._events:
            self._run(self.member.handle(self._events.popleft()))

    # --- effects ---------------------------------------------------------------------------------------------

    def _run(self, effects: list[Effect]) -> None:
        for effect in effects:
            answer = self._perform(effect)
            if answer is not None:
                self._events.append(answer)

    def _perform(self, effect: Effect) -> Event | None:
        match effect:
            case Send(to, message) if to == LEADER:
                self._leader.receive(message)
            case Send(to, message) if to == self.member.id:
                return Received(to, message)
            case Acknowledge(delivery):
                self._intake.acknowledge(delivery)
                if self.record.committed:
                    self._settle()
            case ScanTable():
                table = self._catalog().tables[effect.table]
                return scan_table(self.store, table, effect, self._now_ms, self.dead.add)
            case ReadRows():
                return read_keys(self.store, self._catalog().tables, effect, self._now_ms, self.dead.add)
            case ProposeCut(cut):
                assert self._log is not None
                standing = self._log.propose(self.member.id, cut)
                if standing is not None:
                    return CutStands(*standing)
                self._reload()
            case LogReceived():
                assert self._log is not None
                self._log.append_received(self.member.id, effect.generation, effect.epoch, effect.batches)
                return ReceivedLogged(effect.epoch)
            case WriteRows():
                self._write(effect)
                return RowsWritten(effect.epoch)
            case Committed():
                self._committed(effect.epoch)
            case Superseded():
                self._reload()
        return None

    def _catalog(self) -> Catalog:
        return self.coordination.catalog(self.record.catalog)

    def _write(self, effect: WriteRows) -> None:
        """The changed rows to the view tables, and kept for who watches them.

        They are decoded now: with the commit the member may forget the text of rows that are gone.
        """
        plan, pool = self.programs.program(self._catalog()).plan, self.member.store.pool
        write_views(self.store, self._catalog(), plan, effect, pool)
        with self._changed:
            watched = {w.view for w in self._watchers} & effect.views.keys()
            self._written = {v: ViewLayout(plan.outputs[v]).changes(effect.views[v], pool) for v in watched}

    def _committed(self, epoch: int) -> None:
        self.epochs += 1
        self._tell_watchers(epoch)
        self._drop_dead_tables()
        if self._checkpoints is not None:
            self._checkpoints.committed(self.member)
        self._settle()

    def _tell_watchers(self, epoch: int) -> None:
        views = self._catalog().views
        with self._changed:
            written, self._written = self._written or {}, None
            gone = [w for w in self._watchers if w.view not in views or views[w.view].created != w.created]
            self._watchers = [w for w in self._watchers if w not in gone]
            watchers = list(self._watchers)
            self._changed.notify_all()
        for watcher in watchers:
            rows = written.get(watcher.view)
            if rows is not None and rows.num_rows:
                watcher.changed(epoch, rows)
        for watcher in gone:
            watcher.end(None)

    def _publish(self) -> None:
        """Let readers see the committed epoch; before anybody is told that it covers his writes."""
        self.memory = self.member.store.memory_bytes()
        self.readable = Readable(
            self.record.read, self.epochs, self._errors(), self._gaps.of(self.record.read.generation)
        )

    def _settle(self) -> None:
        """No epoch is under way: let those go on who wait for the last one."""
        with self._changed:
            self._intake.settle()
            self._changed.notify_all()

    def covers(self, token: Token) -> bool:
        """Whether the committed epoch holds everything that the token names."""
        return self._intake.covers(token)

    def _take_gap(self, batch: StreamBatch) -> None:
        """A table changed in a way that its stream does not tell: readers of its views must be told."""
        assert batch.gap is not None
        self._gaps.add(Gap(batch.table, self.record.generation, batch.region, batch.last, batch.gap))
        catalog = self._catalog()
        plans = {name: self.programs.plan(catalog, name, view.sql).plan for name, view in catalog.views.items()}
        stopped = [name for name, plan in plans.items() if batch.table in plan.sources]
        self.warn(f"table {batch.table}: {batch.gap}; views to rebuild: {', '.join(stopped) or 'none'}")
        with self._changed:
            self._publish()
            ended = [w for w in self._watchers if w.view in stopped]
            self._watchers = [w for w in self._watchers if w not in ended]
        for watcher in ended:
            watcher.end(view_stopped(watcher.view, self.readable.gaps[batch.table]))
        self._leader.receive(Want(self.member.id))  # the commit tells the readers at other managers

    def _errors(self) -> dict[str, tuple[int, str | None]]:
        """Rows whose expressions fail, by view."""
        found: dict[str, tuple[int, str | None]] = {}
        failing = {id_: op for id_, op in self.member.store.operations.items() if getattr(op, "error_count", 0)}
        for name, view in self._catalog().views.items() if failing else ():
            for node in self.programs.plan(self._catalog(), name, view.sql).plan.nodes:
                if node.id in failing:
                    count, text = found.get(name, (0, None))
                    more, example = (getattr(failing[node.id], a) for a in ("error_count", "last_error"))
                    found[name] = (count + more, text or example)
        return found

    # --- the life of a member --------------------------------------------------------------------------------

    def _load(self) -> None:
        """The member as its log tells; with no log, or one that does not reach, the views are rebuilt."""
        record, id_, log = self.record, self.member.id, self._log
        if record.committed:
            self._intake.settle()
        else:
            self._intake.unsettle()
        if log is None:
            self.member = Member(id_, log=False)
            if record.epoch:
                self._rebuild("it was opened without a log")
            return
        if record.epoch == 0:
            log.create(id_, record.generation)
            return
        effects: list[Effect] = [Superseded(f"there is no log of member {id_}")]
        if log.knows(id_):
            log.remove_unfinished(id_)
            self.member, effects = recover(log, id_, record, self._resolve, warn=self.warn)
        for effect in effects:
            if isinstance(effect, Superseded):
                self.warn(f"the views are rebuilt from their tables: {effect.reason}")
                self._rebuild(effect.reason)
                return
        self._checkpoints = Checkpoints(log, id_, record.generation, self.warn)
        self._run(effects)

    def _rebuild(self, reason: str) -> None:
        """Ask for a new generation; until it is committed, reads go on from the old one."""
        self.rebuilding = reason
        self.member = Member(self.member.id, log=self._log is not None)
        self._leader.receive(StateLost(self.record.generation, self.record.epoch, self.member.id))

    def _reload(self) -> None:
        """This copy fell behind: load it again and have the source deliver again what was not acknowledged."""
        self._intake.reset()
        self._events.clear()
        self._load()

    def warn(self, text: str) -> None:
        """Tell the operator."""
        self.warnings.append(text)
        _LOG.warning("%s", text)

    def _create_view_tables(self, record: Record) -> None:
        existing = set(self.store.tables())
        for view in self.coordination.catalog(record.catalog).views.values():
            if view.table(record.generation) not in existing:
                self.store.create_table(view.table(record.generation), FAMILIES)

    def _drop_dead_tables(self) -> None:
        """Tables of dropped views and abandoned generations: nobody reads them after this commit."""
        read = self.record.read
        if (read.generation, read.catalog) != self._tidied:
            for name in self.coordination.catalog(read.catalog).outlived(self.store.tables(), read.generation):
                self.store.drop_table(name)
            if self._log is not None:
                self._log.remove_generations_before(self.member.id, read.generation)
            self._tidied = read.generation, read.catalog
