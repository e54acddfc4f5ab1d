"""The View Manager's loop: carries events to the core and does what it asks (design sections 6 and 8).

One process, one member, and the leader beside it: a cluster of one with local links. Everything happens in one
thread, so the core needs no lock; other threads talk to it by the store, the record and `wake`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from vms.errors import InternalError, VmsError
from vms.maintenance.leader import Desired, Leader
from vms.maintenance.member import Member
from vms.maintenance.messages import (
    LEADER,
    Acknowledge,
    Committed,
    CutStands,
    Delivered,
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
    ViewRows,
    WriteRows,
)
from vms.maintenance.record import Definitions, Record
from vms.maintenance.source_rows import with_slots
from vms.manager.coordination import Coordination
from vms.manager.deadletters import DeadLetterTable
from vms.manager.log import TransactionLog
from vms.manager.programs import Programs
from vms.manager.recovery import recover
from vms.manager.store_io import read_keys, scan_table, write_views
from vms.model.catalog import Catalog
from vms.model.token import Token
from vms.store.embedded import EmbeddedStore
from vms.stream.base import Source, SourceBatch
from vms.stream.decode import RowDecoder
from vms.viewtable.layout import FAMILIES

#: Source changes taken in at once. Not higher, or an epoch could not be closed meanwhile; not lower, or the
#: fixed cost of a batch would show.
POLL_LIMIT = 20_000
#: Log bytes after which a checkpoint is taken. Not higher, or recovery would replay for more than seconds; not
#: lower, or writing checkpoints would cost more than the log.
CHECKPOINT_BYTES = 64 << 20

#: Called with the epoch and the changed rows of each view after each commit.
Listener = Callable[[int, Mapping[str, ViewRows]], None]


class Runtime:
    """One View Manager process over the embedded store."""

    def __init__(
        self,
        store: EmbeddedStore,
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
        self._batches: dict[int, SourceBatch] = {}
        self._delivery = time.time_ns()
        self._decoders: dict[tuple[str, int], RowDecoder] = {}
        self._last_issue = 0.0
        self._pending_views: Mapping[str, ViewRows] = {}
        self._listeners: list[Listener] = []
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._stop = False
        self._failure: BaseException | None = None
        #: Stream positions that the last committed epoch covers.
        self.positions: dict[str, int] = {}
        self._acknowledged: dict[str, int] = {}
        self._settled = False
        self.epochs = self.rows_in = 0
        self.view_errors: dict[str, tuple[int, str | None]] = {}
        self.memory: dict[str, int] = {}
        if coordination.newest_ring() == 0:
            coordination.add_ring([member])
        self.record = coordination.record()
        self.member = Member(member, log=log is not None)
        self._load()
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

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call it after each commit, in the manager's thread; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def stop(self) -> None:
        """Finish what is under way, take a checkpoint, end the thread."""
        self._stop = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        if self._failure is None and self._log is not None and self.member.epoch and self.record.committed:
            self._log.save_checkpoint(self.member.id, self.member.checkpoint())

    def _check(self) -> None:
        if self._failure is not None:
            if isinstance(self._failure, VmsError):
                raise self._failure
            raise InternalError(f"maintenance stopped: {self._failure!r}") from self._failure

    # --- the loop --------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        try:
            while not self._stop:
                if not self.step():
                    self.source.wait(self._interval)
        except BaseException as failure:
            self._failure = failure
        with self._changed:
            self._changed.notify_all()

    def step(self) -> bool:
        """Take in what is there and carry the epoch on; False if there is nothing to do now."""
        busy = self._take_in()
        self._run_events()
        self._run(self.member.handle(Tick()))
        return self._lead() or busy

    def _take_in(self) -> bool:
        batches = self.source.poll(POLL_LIMIT)
        for batch in batches:
            self._delivery += 1
            self._batches[self._delivery] = batch
            table = self.coordination.catalog().tables.get(batch.table)
            if table is None:
                self._run([Acknowledge(self._delivery)])
                continue
            decoder = self._decoders.setdefault((table.name, id(table)), RowDecoder(table))
            rows, letters = decoder.decode([(e.seq, m) for e in batch.entries for m in e.mutations])
            self.dead.add(letters, batch.region)
            self.rows_in += rows.num_rows
            self._events.append(Delivered(self._delivery, batch.table, batch.region, with_slots(table, rows)))
        return bool(batches)

    def _lead(self) -> bool:
        now = time.monotonic()
        due = self._hurry.is_set() or now - self._last_issue >= self._interval
        ring = self.coordination.newest_ring()
        desired = Desired(ring, self.coordination.catalog().version)
        members = self.coordination.ring(self.record.ring).members if self.record.ring else ()
        step = self._leader.decide(self.record, members, desired, self._now_ms(), due)
        if step is None:
            return False
        if not step.record.committed:
            self._last_issue = now
            self._hurry.clear()
            self._create_view_tables(step.record)
        if self.coordination.compare_and_set(step.expected, step.record):
            self._record_changed(step.record)
        else:
            self._record_changed(self.coordination.record())
        return True

    def _record_changed(self, record: Record) -> None:
        self.record = record
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
                batch = self._batches.pop(delivery)
                self.source.acknowledge(batch)
                self._acknowledged[batch.region] = batch.last
                if self.record.committed:
                    self._publish_positions()
            case ScanTable():
                table = self._catalog().tables[effect.table]
                return scan_table(self.store, table, effect, self._now_ms(), self.dead.add)
            case ReadRows():
                return read_keys(self.store, self._catalog().tables, effect, self.dead.add)
            case ProposeCut(cut):
                assert self._log is not None
                return CutStands(*self._log.propose(self.member.id, cut))
            case LogReceived():
                assert self._log is not None
                self._log.append_received(self.member.id, effect.generation, effect.epoch, effect.batches)
                return ReceivedLogged(effect.epoch)
            case WriteRows():
                plan = self.programs.program(self._catalog()).plan
                write_views(self.store, self._catalog(), plan, effect, self.member.store.pool)
                self._pending_views = effect.views
                return RowsWritten(effect.epoch)
            case Committed():
                self._committed(effect.epoch)
            case Superseded():
                self._reload()
        return None

    def _catalog(self) -> Catalog:
        return self.coordination.catalog(self.record.catalog)

    def _committed(self, epoch: int) -> None:
        self.epochs += 1
        for listener in list(self._listeners):
            listener(epoch, self._pending_views)
        self._drop_dead_tables()
        if self._log is not None and self._log.size_bytes(self.member.id, self.record.generation) > CHECKPOINT_BYTES:
            self._log.save_checkpoint(self.member.id, self.member.checkpoint())
        self.view_errors, self.memory = self._errors(), self.member.store.memory_bytes()
        self._publish_positions()

    def _publish_positions(self) -> None:
        """With no epoch under way, all that is acknowledged is in committed cuts."""
        with self._changed:
            self._settled = True
            self.positions = dict(self._acknowledged)
            self._changed.notify_all()

    def covers(self, token: Token) -> bool:
        """Whether the committed epoch holds everything that the token names.

        A region that has nothing left to acknowledge, and had nothing since this process started, was followed
        to its end before.
        """
        open_ = {region.id for region in self.store.stream_regions()}
        return all(
            self.positions.get(region, 0) >= seq
            or (self._settled and region not in open_ and region not in self._acknowledged)
            for region, seq in token.positions.items()
        )

    def _errors(self) -> dict[str, tuple[int, str | None]]:
        """Rows whose expressions fail, by view."""
        found: dict[str, tuple[int, str | None]] = {}
        for name, view in self._catalog().views.items():
            for node in self.programs.plan(self._catalog(), name, view.sql).plan.nodes:
                operation = self.member.store.operations.get(node.id)
                count = getattr(operation, "error_count", 0)
                if count:
                    found[name] = (found.get(name, (0, None))[0] + count, getattr(operation, "last_error", None))
        return found

    # --- the life of a member --------------------------------------------------------------------------------

    def _load(self) -> None:
        """The member as its log tells; with no log, or one that does not reach, the views are rebuilt."""
        if self.record.epoch == 0:
            return
        if self._log is None:
            self._leader.receive(StateLost(self.record.generation, self.record.epoch, self.member.id))
            return
        self.member, effects = recover(self._log, self.member.id, self.record, self._resolve)
        self._settled = self.record.committed
        if any(isinstance(e, Superseded) for e in effects):
            self._leader.receive(StateLost(self.record.generation, self.record.epoch, self.member.id))
            return
        self._run(effects)

    def _reload(self) -> None:
        """This copy fell behind: load it again and have the source deliver again what was not acknowledged."""
        self.source.reset()
        self._batches.clear()
        self._events.clear()
        self._load()

    def _create_view_tables(self, record: Record) -> None:
        existing = set(self.store.tables())
        for view in self.coordination.catalog(record.catalog).views.values():
            if view.table(record.generation) not in existing:
                self.store.create_table(view.table(record.generation), FAMILIES)

    def _drop_dead_tables(self) -> None:
        """Tables of dropped views and abandoned generations: nobody reads them after this commit."""
        read = self.record.read
        live = {v.table(read.generation) for v in self.coordination.catalog(read.catalog).views.values()}
        declared = set(self.coordination.catalog().tables)
        for name in self.store.tables():
            if "." in name and name not in live and name not in declared and name != DeadLetterTable.NAME:
                self.store.drop_table(name)
        if self._log is not None:
            self._log.remove_generations_before(read.generation)
