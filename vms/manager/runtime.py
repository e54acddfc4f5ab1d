"""The View Manager's loop: carries events to the core and does what it asks (design sections 6 and 8).

One process with one or several members, and the leader beside them where this process leads. What lies outside is
behind `Neighbours`: nothing for a process alone, ZooKeeper and gRPC for one of many. Everything happens in one
thread, so the core needs no lock; other threads talk to it by the store, the record and `wake`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from vms.errors import InternalError, StoreError, StoreUnavailable, VmsError
from vms.maintenance.leader import Desired, Leader
from vms.maintenance.messages import (
    LEADER,
    Acknowledge,
    Batch,
    Committed,
    CutStands,
    Effect,
    Event,
    Handoff,
    Loaded,
    LoadView,
    LogReceived,
    Message,
    ProposeCut,
    ReadRows,
    Received,
    ReceivedLogged,
    RecordChanged,
    RowsWritten,
    Scanned,
    ScanTable,
    Send,
    StateLost,
    Superseded,
    Tick,
    Want,
    WriteRows,
)
from vms.maintenance.operations.delta_view import DeltaView
from vms.maintenance.record import Definitions, Record
from vms.manager.coordination import Coordination
from vms.manager.deadletters import DeadLetterTable
from vms.manager.following import Facts, Readable
from vms.manager.gaps import Gap, Gaps, view_stopped
from vms.manager.hosted import Hosted, Members
from vms.manager.intake import Intake
from vms.manager.log import TransactionLog
from vms.manager.neighbours import Alone, Neighbours
from vms.manager.programs import Programs
from vms.manager.store_io import load_view, read_keys, scan_table, write_views
from vms.manager.subscriptions import Subscriptions, Watcher
from vms.manager.trace import Traces
from vms.model.catalog import Catalog
from vms.model.token import Token
from vms.store.base import ManagedStore
from vms.stream.base import Source, StreamBatch
from vms.viewtable.layout import FAMILIES

_LOG = logging.getLogger("vms.manager")
#: Seconds between epochs while a read is under way that epochs had overtaken. Not higher, or one long read would make
#: every view stale; not lower, or it would be overtaken again.
_LONG_INTERVAL = 1.0
#: Seconds that a stop waits for the epoch under way, where other processes have to do their part of it.
_STOP_SECONDS = 10.0
#: Seconds between two looks at a store or ZooKeeper that did not answer.
_AGAIN_SECONDS = 0.5


class SessionLost(Exception):
    """What is hosted here may be hosted by somebody else: nothing more is written for it."""


class Runtime:
    """One View Manager process over a store, its change stream, and what a cluster shares."""

    def __init__(
        self,
        store: ManagedStore,
        source: Source,
        coordination: Coordination,
        log: TransactionLog | None,
        *,
        members: Sequence[str] = ("m1",),
        neighbours: Neighbours | None = None,
        epoch_interval: float = 0.1,
        now_ms: Callable[[], int],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`members`: of the first ring, where this process is alone. `on_end`: called when the loop has ended."""
        self.store, self.source, self.coordination = store, source, coordination
        self.programs, self.dead = Programs(), DeadLetterTable(store)
        self._log, self._now_ms, self._interval = log, now_ms, epoch_interval
        self._leader = Leader()
        self._events: deque[tuple[str, Event]] = deque()
        self._gaps = Gaps(store)
        self._intake = Intake(source, self.dead, self._take_gap)
        self._last_issue = self._last_tick = 0.0
        self._changed = threading.Condition()
        self._subscriptions = Subscriptions(self._changed)
        #: Reads that epochs have overtaken, and that are tried again.
        self._unhurried = 0
        self._hurry, self._news = threading.Event(), threading.Event()
        self._stop = self._ended = False
        #: Whether the last step ended in the middle: readers may not have been told of the last commit.
        self._doubtful = False
        self._on_end = on_end
        self._failure: BaseException | None = None
        #: Why the views are being made anew from the base tables; None: they are not.
        self.rebuilding: str | None = None
        #: Why somebody wants them to be.
        self._rebuild_wanted: str | None = None
        #: What the operator should know, oldest first.
        self.warnings: list[str] = []
        self.traces = Traces()
        #: Tables that are read whole now, because views over them are new, and how many rows of each so far.
        self.scanning: dict[str, int] = {}
        self.memory: dict[str, int] = {}
        #: Tables that members here read whole in one epoch: read once for all of them.
        self._scans: dict[tuple[int, str], Scanned] = {}
        if neighbours is None and coordination.newest_ring() == 0:
            coordination.add_ring(list(members))
        self.neighbours = neighbours or Alone(coordination)
        self._incarnation = self.neighbours.incarnation()
        self.record = coordination.record()
        self.members = Members(log, self._resolve, coordination.ring, self.warn, alone=neighbours is None)
        self.readable = Readable(self.record.read, self.record.read.number, {}, {})
        self._tidied = (0, 0)
        if self.record.committed:
            self._intake.settle(self.record.epoch)
        else:
            self._intake.unsettle()
        self._host()
        self._publish()
        self.neighbours.on_news(self.look)
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
        """Something changed: look at once; in a `hurry`, issue an epoch at once too."""
        if hurry:
            self._hurry.set()
        self.look()

    def look(self) -> None:
        """There may be something to do."""
        self._news.set()
        self.source.wake()

    def watch(self, watcher: Watcher) -> None:
        """Tell it of every epoch that a read from now on does not hold yet."""
        self._subscriptions.add(watcher, self._check)

    def unwatch(self, watcher: Watcher) -> None:
        self._subscriptions.remove(watcher)

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """While it is open, epochs are issued more slowly: a long read is not overtaken by them."""
        with self._changed:
            self._unhurried += 1
        try:
            yield
        finally:
            with self._changed:
                self._unhurried -= 1

    def rebuild(self, reason: str) -> None:
        """Make all views anew from their tables, in a new generation, and wait until they are there."""
        generation = self.readable.point.generation
        self.ask_rebuild(reason)
        self.wait(lambda: self.readable.point.generation > generation)

    def ask_rebuild(self, reason: str) -> None:
        self._rebuild_wanted = reason
        self.look()

    def facts(self) -> Facts:
        return Facts(self.source.lag().entries, self.rebuilding, list(self.warnings), scanning=dict(self.scanning))

    def followed_rows(self, table: str) -> int | None:
        held = [hosted.member.store.delta_views.get(table) for hosted in self.members]
        known = [view for view in held if isinstance(view, DeltaView)]
        return sum(map(len, known)) if known and len(known) == len(held) else None

    @property
    def rows(self) -> int:
        """Source rows that were taken in here."""
        return self._intake.rows

    def stop(self) -> None:
        """Finish the epoch under way, take a checkpoint if that pays, end the thread."""
        self._stop = True
        self.wake(hurry=True)
        if self._thread.is_alive():
            self._thread.join()
        for id_ in self.members.ids:
            self.members.drop(id_, checkpoint=self._failure is None)
        self.neighbours.close()

    @property
    def failed(self) -> VmsError | None:
        """What ended the maintenance, if something did."""
        return self._error() if self._ended else None

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
            while not self._may_stop():
                if not self._step():
                    self._rest()
        except BaseException as failure:
            self._failure = failure
            _LOG.error("%s", self._error(), exc_info=failure)
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._subscriptions.end(self._error() if self._failure is not None else None)
        self._on_end()

    @property
    def drained(self) -> bool:
        """Whether it ended because its members went to others."""
        return self._ended and self._failure is None and self.neighbours.finished(self.members.ids)

    def _may_stop(self) -> bool:
        if self.neighbours.finished(self.members.ids):
            return True
        if not self._stop:
            return False
        others = not isinstance(self.neighbours, Alone)
        return self.record.committed or (
            (others or self._doubtful) and time.monotonic() - self._last_issue > _STOP_SECONDS
        )

    def _step(self) -> bool:
        """A step, where this manager may act; what others are there for heals without us."""
        try:
            if not self._present():
                return False
            if self._doubtful and self.record.committed:
                self._publish()
                self._settle()
            self._doubtful = False
            return self.step()
        except SessionLost:
            return True
        except StoreUnavailable as error:
            self.warn(f"waiting: {error}")
            self._begin_anew()
            time.sleep(_AGAIN_SECONDS)
            return True

    def _present(self) -> bool:
        """Whether it may act; after a lost session it begins with nothing."""
        if not self.neighbours.present():
            return False
        if self.neighbours.incarnation() != self._incarnation:
            self.warn("the session with ZooKeeper was lost: the members here begin anew")
            self._begin_anew()
            self._incarnation = self.neighbours.incarnation()
        return True

    def _begin_anew(self) -> None:
        """Forget every member: what stands in the logs decides. The source delivers again."""
        for id_ in self.members.ids:
            self.members.drop(id_)
        self._events.clear()
        self._leader = Leader()
        self._intake.reset()
        self._doubtful = True

    def _rest(self) -> None:
        """Until there may be something to do: within the interval, changes of the source do not count."""
        left = self._last_issue + self._pace() - time.monotonic()
        if left > 0:
            self._news.wait(left)
        elif not self._news.is_set():
            self.source.wait(self._interval)
        self._news.clear()

    def step(self) -> bool:
        """Take in what is there and carry the epoch on; False if there is nothing to do now.

        Changes are taken in right before an epoch is issued, so that it holds all that has come until then:
        a source has one batch of a region under way at a time, and what comes behind it waits for the next.
        """
        self._look_at_record()
        self._host()
        due = self.record.committed and self._due()
        if self.record.committed and self._rebuild_wanted is not None:
            self._ask_to_rebuild(self._rebuild_wanted)
        if due:
            self._poll()
        self._receive()
        busy = bool(self._events)
        self._run_events()
        if time.monotonic() - self._last_tick >= max(self._interval, self.neighbours.patience):
            self._last_tick = time.monotonic()
            self._tick()
        return self._lead(due) or busy

    def _ask_to_rebuild(self, reason: str) -> None:
        self.rebuilding, self._rebuild_wanted = reason, None
        id_ = min(self.members.ids, default="")
        self._send(id_, LEADER, StateLost(self.record.generation, self.record.epoch, id_))

    def _look_at_record(self) -> None:
        record = self.coordination.record()
        if record.epoch > self.record.epoch or (record.epoch == self.record.epoch and record != self.record):
            self._record_changed(record)

    def _due(self) -> bool:
        hurry = self._hurry.is_set()
        self._hurry.clear()
        paced = time.monotonic() - self._last_issue >= self._pace()
        return paced or (not self._unhurried and (hurry or self._intake.behind))

    def _pace(self) -> float:
        return max(self._interval, _LONG_INTERVAL) if self._unhurried else self._interval

    def _poll(self) -> None:
        """Source batches enter at one member here; where none is ready, they stay in the source."""
        gate = next((h.member.id for h in self.members if h.lost is None), None)
        if gate is not None:
            self._events.extend((gate, e) for e in self._intake.poll(self.coordination.catalog().tables))

    def _receive(self) -> None:
        for sender, receiver, message in self.neighbours.receive():
            if receiver == LEADER:
                self._leader.receive(message)
            elif receiver in self.members:
                self._events.append((receiver, Received(sender, message)))

    def _tick(self) -> None:
        for hosted in self.members:
            if hosted.lost is None:
                self._run(hosted, hosted.member.handle(Tick()))
            else:
                lost = StateLost(self.record.generation, self.record.epoch, hosted.member.id)
                self._send(hosted.member.id, LEADER, lost)
        self._run_events()

    def _lead(self, due: bool) -> bool:
        if not self.neighbours.leads():
            return False
        desired = Desired(self.coordination.newest_ring(), self.coordination.catalog().version)
        if desired.ring == 0:
            return False
        gone = self.neighbours.lost(self.record)
        if gone is not None:
            self.warn(f"member {gone} is lost with its state: the views are rebuilt from their tables")
            self._leader.receive(StateLost(self.record.generation, self.record.epoch, gone))
            desired = Desired(self.coordination.newest_ring(), desired.catalog)
        if self._needs_rows(desired.catalog):
            self._leader.receive(StateLost(self.record.generation, self.record.epoch, LEADER))
        members = self.coordination.ring(self.record.ring).members if self.record.ring else ()
        step = self._leader.decide(self.record, members, desired, self._now_ms(), due)
        if step is None:
            return False
        if not step.record.committed:
            self._create_view_tables(step.record)
        changed = self.coordination.compare_and_set(step.expected, step.record)
        self._record_changed(step.record if changed else self.coordination.record())
        return True

    def _needs_rows(self, version: int) -> bool:
        """Whether a view of this catalog is new and reads a table of which nothing is held: then all are built anew."""
        record = self.record
        if not record.committed or not record.generation or version == record.catalog:
            return False
        catalog = self.coordination.catalog(version)
        settled = self.programs.program(catalog, record.generation).settled
        before = self.coordination.catalog(record.catalog).views
        new = [v for name, v in catalog.views.items() if before.get(name) != v] if settled else []
        return any(settled & self.programs.plan(catalog, v.name, v.sql).plan.sources.keys() for v in new)

    def _record_changed(self, record: Record) -> None:
        if record == self.record:
            return
        before = self.record
        if not before.committed and (record.previous, record.generation) == (before.epoch, before.generation):
            self._record_changed(before.commit())  # it was committed while we looked away
        if record.generation != self.record.generation:
            self.members.new_generation(record)
        self.record = record
        if record.committed:
            self.rebuilding = None
            self.traces.seen(record.epoch, "committed")
        else:
            self._last_issue = time.monotonic()
            self.traces.seen(record.epoch, "issued")
        definitions = self._resolve(record)
        if record.committed:
            self._publish()
        self._events.extend((id_, RecordChanged(record, definitions)) for id_ in sorted(self.members.ids))
        self._run_events()
        if record.committed:
            self._epoch_over()

    def _resolve(self, record: Record) -> Definitions:
        ring = self.coordination.ring(record.ring)
        moved = record.previous_ring != record.ring
        before = self.coordination.ring(record.previous_ring) if moved else None
        catalog = self.coordination.catalog(record.catalog)
        return Definitions(ring, before, self.programs.program(catalog, record.generation))

    def _run_events(self) -> None:
        while self._events:
            id_, event = self._events.popleft()
            hosted = self.members.get(id_)
            if hosted is not None and hosted.lost is None:
                with self.traces.spent(self.record.epoch, "compute"):
                    effects = hosted.member.handle(event)
                self._run(hosted, effects)

    # --- effects ---------------------------------------------------------------------------------------------

    def _run(self, hosted: Hosted, effects: Iterable[Effect]) -> None:
        for effect in effects:
            answer = self._perform(hosted, effect)
            if answer is not None:
                self._events.append((hosted.member.id, answer))

    def _perform(self, hosted: Hosted, effect: Effect) -> Event | None:
        id_ = hosted.member.id
        match effect:
            case Send(to, message):
                self._send(id_, to, message)
            case Acknowledge(delivery, epoch):
                self._intake.acknowledge(delivery, epoch)
                if self.record.committed:
                    self._settle()
            case ScanTable():
                return self._scan(effect)
            case LoadView():
                return self._load_view(effect)
            case ReadRows():
                with self.traces.spent(effect.epoch, "read"):
                    return read_keys(self.store, self._catalog().tables, effect, self._now_ms, self.dead.add)
            case ProposeCut(cut):
                assert self._log is not None
                self._still_here()
                self.traces.took(cut.record.epoch, sum(rows.num_rows for rows in cut.changes.values()))
                with self.traces.spent(cut.record.epoch, "log"):
                    standing = self._log.propose(id_, cut)
                if standing is not None:
                    return CutStands(*standing)
                self._reload(hosted, "its log has gone on without this copy")
            case LogReceived():
                self._still_here()
                self._log_received(id_, effect.generation, effect.epoch, effect.batches)
                return ReceivedLogged(effect.epoch)
            case WriteRows():
                self._still_here()
                with self.traces.spent(effect.epoch, "write"):
                    self._write(hosted, effect)
                return RowsWritten(effect.epoch)
            case Committed():
                if hosted.checkpoints is not None:
                    hosted.checkpoints.committed(hosted.member)
            case Superseded(reason):
                self._reload(hosted, reason)
        return None

    def _send(self, sender: str, to: str, message: Message) -> None:
        if to == LEADER and self.neighbours.leads():
            self._leader.receive(message)
        elif to in self.members and (to == sender or self.neighbours.direct):
            self._events.append((to, Received(sender, message)))
        else:
            with self.traces.spent(self.record.epoch, "send"):
                self.neighbours.send(sender, to, message)

    def _still_here(self) -> None:
        """Before anything is written: one that is in doubt waits, one that lost its session stops."""
        while not self.neighbours.present():
            if self._stop:
                raise SessionLost
            self._news.wait(_AGAIN_SECONDS)
            self._news.clear()
        if self.neighbours.incarnation() != self._incarnation:
            raise SessionLost

    def _scan(self, effect: ScanTable) -> Scanned:
        key = effect.epoch, effect.table
        if key not in self._scans:
            table = self._catalog().tables[effect.table]
            with self.traces.spent(effect.epoch, "scan"):
                try:
                    progress = partial(self.scanning.__setitem__, table.name)
                    self._scans[key] = scan_table(self.store, table, effect, self._now_ms, self.dead.add, progress)
                finally:
                    self.scanning.pop(table.name, None)
        return self._scans[key]

    def _load_view(self, effect: LoadView) -> Loaded:
        with self.traces.spent(effect.epoch, "scan"):
            return load_view(effect)

    def _log_received(
        self, id_: str, generation: int, epoch: int, batches: Sequence[tuple[str, Batch | Handoff]]
    ) -> None:
        assert self._log is not None
        with self.traces.spent(epoch, "log"):
            self._log.append_received(id_, generation, epoch, batches)

    def _catalog(self) -> Catalog:
        return self.coordination.catalog(self.record.catalog)

    def _write(self, hosted: Hosted, effect: WriteRows) -> None:
        """The changed rows to the view tables, and kept for who watches them."""
        plan, pool = self.programs.program(self._catalog()).plan, hosted.member.store.pool
        write_views(self.store, self._catalog(), plan, effect, pool)
        self._subscriptions.written(effect, plan, pool)
        if not isinstance(self.neighbours, Alone):  # before the commit: no reader of the epoch may miss them
            self.neighbours.tell_errors({hosted.member.id: self._errors(hosted)})

    def _epoch_over(self) -> None:
        """The epoch is committed, and the members here know."""
        self._scans.clear()
        self._subscriptions.committed(self.record.epoch, self._catalog())
        self._drop_dead_tables()
        for hosted in self.members:
            if len(hosted.member.buffer):
                self._send(hosted.member.id, LEADER, Want(hosted.member.id))
        self._settle()

    def _publish(self) -> None:
        """Let readers see the committed epoch; before anybody is told that it covers his writes."""
        memory: dict[str, int] = {}
        for hosted in self.members:
            for name, count in hosted.member.store.memory_bytes().items():
                memory[name] = memory.get(name, 0) + count
        self.memory = memory
        errors = self.neighbours.tell_errors({h.member.id: self._errors(h) for h in self.members})
        gaps = self._gaps.of(self.record.read.generation)
        self.readable = Readable(self.record.read, self.record.read.number, errors, gaps)

    def _settle(self) -> None:
        """No epoch is under way: let those go on who wait for the last one."""
        with self._changed:
            self._intake.settle(self.record.epoch)
            self._changed.notify_all()

    def covers(self, token: Token) -> bool:
        """Whether the committed epoch holds everything that the token names."""
        return self._intake.covers(token)

    def _take_gap(self, batch: StreamBatch, reason: str) -> None:
        """A table changed in a way that its stream does not tell: readers of its views must be told."""
        catalog = self.coordination.catalog()
        plans = {name: self.programs.plan(catalog, name, view.sql).plan for name, view in catalog.views.items()}
        stopped = [name for name, plan in plans.items() if batch.table in plan.sources]
        if not stopped:
            return  # who creates a view later reads the whole table
        self._gaps.add(Gap(batch.table, self.record.generation, batch.region, batch.last, reason))
        self.warn(f"table {batch.table}: {reason}; views to rebuild: {', '.join(stopped)}")
        self._publish()
        self._subscriptions.stop({view: view_stopped(view, self.readable.gaps[batch.table]) for view in stopped})
        id_ = min(self.members.ids, default="")
        self._send(id_, LEADER, Want(id_))  # the commit tells the readers at other managers

    def received(self) -> Token:
        """Everything that the source was told to forget so far."""
        return self._intake.received()

    def _errors(self, hosted: Hosted) -> dict[str, tuple[int, str | None]]:
        """Rows whose expressions fail, by view."""
        found: dict[str, tuple[int, str | None]] = {}
        failing = {id_: op for id_, op in hosted.member.store.operations.items() if getattr(op, "error_count", 0)}
        for name, view in self._catalog().views.items() if failing else ():
            for node in self.programs.plan(self._catalog(), name, view.sql).plan.nodes:
                if node.id in failing:
                    count, text = found.get(name, (0, None))
                    more, example = (getattr(failing[node.id], a) for a in ("error_count", "last_error"))
                    found[name] = (count + more, text or example)
        return found

    # --- the life of members ---------------------------------------------------------------------------------

    def _host(self) -> None:
        """Host what this process has to host, and nothing else."""
        wanted = self.neighbours.assigned(self.record, self.members.ids)
        if wanted == self.members.ids:
            return
        for id_ in sorted(self.members.ids - wanted):
            self.members.drop(id_, checkpoint=self.record.committed)
            self._intake.reset()
        for id_ in sorted(wanted - self.members.ids):
            self._load(id_)
        self.neighbours.hosting(self.members.ids, self.record)

    def _load(self, id_: str) -> None:
        """The member as its log tells; with no log, or one that does not reach, the views are rebuilt.

        The record is read after the member was claimed: what the log has lost may be of the newest generation, and a
        member must not vouch for a generation in which another process may have cut for it.
        """
        self._look_at_record()
        effects = self.members.load(id_, self.record)
        hosted = self.members.get(id_)
        assert hosted is not None
        if hosted.lost is not None:
            if self._log is not None:
                self.warn(f"the views are rebuilt from their tables: {hosted.lost}")
            self.rebuilding = hosted.lost
            self._send(id_, LEADER, StateLost(self.record.generation, self.record.epoch, id_))
        self._run(hosted, effects)

    def _reload(self, hosted: Hosted, reason: str) -> None:
        """This copy fell behind: load it again and have the source deliver again what was not acknowledged."""
        _LOG.info("member %s is loaded again: %s", hosted.member.id, reason)
        id_ = hosted.member.id
        self._intake.reset()
        self._events = deque(e for e in self._events if e[0] != id_)
        self.members.drop(id_)
        self._load(id_)

    def warn(self, text: str) -> None:
        """Tell the operator."""
        if text not in self.warnings[-1:]:
            self.warnings.append(text)
            _LOG.warning("%s", text)

    def _create_view_tables(self, record: Record) -> None:
        existing = set(self.store.tables())
        catalog = self.coordination.catalog(record.catalog)
        for view in (*catalog.views.values(), *catalog.builds.values()):
            if view.table(record.generation) not in existing:
                self.store.create_table(view.table(record.generation), FAMILIES)

    def _made_here(self, table: str) -> bool:
        """Whether it is a view table of this VMS: the store may hold tables of others whose names look like one."""
        view, created, _ = table.rsplit(".", 2)
        try:
            catalog = self.coordination.catalog(int(created))
        except InternalError:
            return False
        found = catalog.views.get(view) or catalog.builds.get(view)
        return found is not None and found.created == int(created)

    def _drop_dead_tables(self) -> None:
        """Tables of dropped views and abandoned generations: nobody reads them after this commit."""
        read = self.record.read
        if (read.generation, read.catalog) == self._tidied:
            return
        if self.neighbours.leads():
            for name in self.coordination.catalog(read.catalog).outlived(self.store.tables(), read.generation):
                if self._made_here(name):
                    self.store.drop_table(name)
        if self._log is not None:
            for id_ in self.members.ids:
                self._log.remove_generations_before(id_, read.generation)
        self._tidied = read.generation, read.catalog
