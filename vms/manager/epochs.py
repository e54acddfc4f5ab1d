"""How epochs pass through one process: each step takes in what is there and carries the epoch on.

Everything here happens in one thread, so the core needs no lock (design sections 6 and 8).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable

from vms.maintenance.messages import (
    LEADER,
    Acknowledge,
    Committed,
    Effect,
    Event,
    Message,
    ProposeCut,
    Received,
    RecordChanged,
    Send,
    StateLost,
    Superseded,
    Tick,
    Want,
    WriteRows,
)
from vms.maintenance.record import Definitions, Record
from vms.manager.audience import Audience
from vms.manager.coordination import Coordination
from vms.manager.deadletters import DeadLetterTable
from vms.manager.following import Readable
from vms.manager.gaps import Gap, Gaps, view_stopped
from vms.manager.hosted import Hosted, Members, failing_rows
from vms.manager.intake import Intake
from vms.manager.leading import Leading
from vms.manager.log import TransactionLog
from vms.manager.neighbours import Alone, Errors, Neighbours
from vms.manager.pace import Pace
from vms.manager.performer import Performer
from vms.manager.programs import Programs
from vms.manager.trace import Traces
from vms.manager.view_tables import ViewTables
from vms.model.catalog import Catalog
from vms.store.base import ManagedStore
from vms.stream.base import Source, StreamBatch

_LOG = logging.getLogger("vms.manager")


class Epochs:
    """The record as this process knows it, the members here with the events for them, and the leader's part."""

    def __init__(
        self,
        store: ManagedStore,
        source: Source,
        coordination: Coordination,
        log: TransactionLog | None,
        neighbours: Neighbours,
        pace: Pace,
        audience: Audience,
        *,
        now_ms: Callable[[], int],
        still_here: Callable[[], None],
    ) -> None:
        """`still_here` raises where nothing may be written for the members here any more."""
        self._coordination, self._log, self._neighbours = coordination, log, neighbours
        self._pace, self._audience = pace, audience
        self.programs, self.dead, self.traces = Programs(), DeadLetterTable(store), Traces()
        #: What the operator should know, oldest first.
        self.warnings: list[str] = []
        #: Why the views are being made anew from the base tables; None: they are not.
        self.rebuilding: str | None = None
        #: Why somebody wants them to be.
        self.rebuild_wanted: str | None = None
        self._events: deque[tuple[str, Event]] = deque()
        self._gaps = Gaps(store)
        self.intake = Intake(source, self.dead, self._take_gap)
        self._last_tick = 0.0
        self._tables, self._tidied = ViewTables(store, coordination), (0, 0)
        self._leading = Leading(coordination, neighbours, self.programs, self._tables, now_ms=now_ms, warn=self.warn)
        self.performer = Performer(
            store,
            log,
            self.programs,
            self.dead,
            self.traces,
            catalog=self._catalog,
            now_ms=now_ms,
            still_here=still_here,
            written=self._written,
        )
        self.record = coordination.record()
        alone = isinstance(neighbours, Alone)
        self.members = Members(log, self._resolve, coordination.ring, self.warn, alone=alone)
        audience.readable = Readable(self.record.read, self.record.read.number, {}, {})
        if self.record.committed:
            self.intake.settle(self.record.epoch)
        else:
            self.intake.unsettle()
        self._host()
        self.publish()

    def step(self) -> bool:
        """Take in what is there and carry the epoch on; False if there is nothing to do now.

        Changes are taken in right before an epoch is issued, so that it holds all that has come until then:
        a source has one batch of a region under way at a time, and what comes behind it waits for the next.
        """
        self._look_at_record()
        self._host()
        due = self.record.committed and self._pace.due(self.intake.behind)
        if self.record.committed and self.rebuild_wanted is not None:
            self._ask_to_rebuild(self.rebuild_wanted)
        if due:
            self._poll()
        self._receive()
        busy = bool(self._events)
        self._run_events()
        if time.monotonic() - self._last_tick >= max(self._pace.interval, self._neighbours.patience):
            self._last_tick = time.monotonic()
            self._tick()
        led = self._leading.lead(self.record, due)
        if led is not None:
            self._record_changed(led)
        return led is not None or busy

    def begin_anew(self) -> None:
        """Forget every member: what stands in the logs decides. The source delivers again."""
        for id_ in self.members.ids:
            self.members.drop(id_)
        self._events.clear()
        self._leading.begin_anew()
        self.intake.reset()

    def _ask_to_rebuild(self, reason: str) -> None:
        self.rebuilding, self.rebuild_wanted = reason, None
        id_ = min(self.members.ids, default="")
        self._send(id_, LEADER, StateLost(self.record.generation, self.record.epoch, id_))

    def _look_at_record(self) -> None:
        record = self._coordination.record()
        if record.epoch > self.record.epoch or (record.epoch == self.record.epoch and record != self.record):
            self._record_changed(record)

    def _poll(self) -> None:
        """Source batches enter at one member here; where none is ready, they stay in the source."""
        gate = next((h.member.id for h in self.members if h.lost is None), None)
        if gate is not None:
            self._events.extend((gate, e) for e in self.intake.poll(self._coordination.catalog().tables))

    def _receive(self) -> None:
        for sender, receiver, message in self._neighbours.receive():
            if receiver == LEADER:
                self._leading.receive(message)
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
            self._pace.issued()
            self.traces.seen(record.epoch, "issued")
        definitions = self._resolve(record)
        if record.committed:
            self.publish()
        self._events.extend((id_, RecordChanged(record, definitions)) for id_ in sorted(self.members.ids))
        self._run_events()
        if record.committed:
            self._epoch_over()

    def _resolve(self, record: Record) -> Definitions:
        ring = self._coordination.ring(record.ring)
        moved = record.previous_ring != record.ring
        before = self._coordination.ring(record.previous_ring) if moved else None
        catalog = self._coordination.catalog(record.catalog)
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
                self.intake.acknowledge(delivery, epoch)
                if self.record.committed:
                    self.settle()
            case ProposeCut(cut):
                standing = self.performer.propose(id_, cut)
                if standing is None:
                    self._reload(hosted, "its log has gone on without this copy")
                return standing
            case Committed():
                if hosted.checkpoints is not None:
                    hosted.checkpoints.committed(hosted.member)
            case Superseded(reason):
                self._reload(hosted, reason)
            case _:
                return self.performer.perform(hosted, effect)
        return None

    def _send(self, sender: str, to: str, message: Message) -> None:
        if to == LEADER and self._neighbours.leads():
            self._leading.receive(message)
        elif to in self.members and (to == sender or self._neighbours.direct):
            self._events.append((to, Received(sender, message)))
        else:
            with self.traces.spent(self.record.epoch, "send"):
                self._neighbours.send(sender, to, message)

    def _catalog(self) -> Catalog:
        return self._coordination.catalog(self.record.catalog)

    def _written(self, hosted: Hosted, effect: WriteRows) -> None:
        """These rows are in the view tables: kept for who watches them, and those that fail are told of."""
        plan = self.programs.program(self._catalog()).plan
        self._audience.subscriptions.written(effect, plan, hosted.member.store.pool)
        if not isinstance(self._neighbours, Alone):  # before the commit: no reader of the epoch may miss them
            self._neighbours.tell_errors({hosted.member.id: self._errors(hosted)})

    def _epoch_over(self) -> None:
        """The epoch is committed, and the members here know."""
        self.performer.epoch_over()
        self._audience.subscriptions.committed(self.record.epoch, self._catalog())
        self._tidy()
        for hosted in self.members:
            if len(hosted.member.buffer):
                self._send(hosted.member.id, LEADER, Want(hosted.member.id))
        self.settle()

    def publish(self) -> None:
        """Let readers see the committed epoch; before anybody is told that it covers his writes."""
        self._audience.memory = self.members.memory()
        errors = self._neighbours.tell_errors({h.member.id: self._errors(h) for h in self.members})
        gaps = self._gaps.of(self.record.read.generation)
        self._audience.readable = Readable(self.record.read, self.record.read.number, errors, gaps)

    def settle(self) -> None:
        """No epoch is under way: let those go on who wait for the last one."""
        with self._audience.changing():
            self.intake.settle(self.record.epoch)

    def _take_gap(self, batch: StreamBatch, reason: str) -> None:
        """A table changed in a way that its stream does not tell: readers of its views must be told."""
        catalog = self._coordination.catalog()
        plans = {name: self.programs.plan(catalog, name, view.sql).plan for name, view in catalog.views.items()}
        stopped = [name for name, plan in plans.items() if batch.table in plan.sources]
        if not stopped:
            return  # who creates a view later reads the whole table
        self._gaps.add(Gap(batch.table, self.record.generation, batch.region, batch.last, reason))
        self.warn(f"table {batch.table}: {reason}; views to rebuild: {', '.join(stopped)}")
        self.publish()
        gap = self._audience.readable.gaps[batch.table]
        self._audience.subscriptions.stop({view: view_stopped(view, gap) for view in stopped})
        id_ = min(self.members.ids, default="")
        self._send(id_, LEADER, Want(id_))  # the commit tells the readers at other managers

    def _errors(self, hosted: Hosted) -> Errors:
        return failing_rows(hosted.member, self._catalog(), self.programs)

    # --- the life of members ---------------------------------------------------------------------------------

    def _host(self) -> None:
        """Host what this process has to host, and nothing else."""
        wanted = self._neighbours.assigned(self.record, self.members.ids)
        if wanted == self.members.ids:
            return
        for id_ in sorted(self.members.ids - wanted):
            self.members.drop(id_, checkpoint=self.record.committed)
            self.intake.reset()
        for id_ in sorted(wanted - self.members.ids):
            self._load(id_)
        self._neighbours.hosting(self.members.ids, self.record)

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
        self.intake.reset()
        self._events = deque(e for e in self._events if e[0] != id_)
        self.members.drop(id_)
        self._load(id_)

    def warn(self, text: str) -> None:
        """Tell the operator."""
        if text not in self.warnings[-1:]:
            self.warnings.append(text)
            _LOG.warning("%s", text)

    def _tidy(self) -> None:
        """Forget what nobody reads after this commit: tables of views, and logs, of before."""
        read = self.record.read
        if (read.generation, read.catalog) == self._tidied:
            return
        if self._neighbours.leads():
            self._tables.drop_dead(read)
        if self._log is not None:
            for id_ in self.members.ids:
                self._log.remove_generations_before(id_, read.generation)
        self._tidied = read.generation, read.catalog
