"""One member of the ring: the epoch protocol as a state machine (design sections 6 and 8).

`handle(event)` returns effects; there is no other way to change a member. For each epoch it walks through

    IDLE -> [HANDOFF] -> [SCANNING] -> [READING] -> PROPOSING -> RUNNING -> FINISHING -> DONE -> IDLE

| phase | waits for | because |
|---|---|---|
| HANDOFF | the state of slots that move to it | only where the epoch has a new ring |
| SCANNING | tables read whole | only where a view reads a table (or column) that is not followed yet |
| | state that bulk jobs left | only where a view that was being built is there now |
| READING | rows that the stream alone cannot tell | only for older timestamps and the like (DeltaView) |
| PROPOSING | its cut to be durable | no output of the epoch may leave before |
| RUNNING | the other members' batches, edge by edge | an edge runs when it is closed by all |
| FINISHING | what it received to be durable, and its view rows to be written | then the epoch can be committed |
| DONE | the commit | it tells the leader again and again |

Why copies of a member do no harm: the log decides the cut of (generation, member, epoch) once, everything
after it is a pure function of the state and the cuts, so whatever a late copy sends or writes is identical to
what stands under that name (thesis Theorem 1, properties 1 and 2). Property 3, the timeline of a base record,
holds because a row has one owner, its changes reach the owner in order, and each epoch applies them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

import numpy as np
import pyarrow as pa

from vms.errors import CorruptState
from vms.maintenance.cut import Checkpoint, Cut, Load, Scan, Watermarks
from vms.maintenance.delivery import Delivery
from vms.maintenance.epoch_run import EpochRun
from vms.maintenance.load_run import LoadedStore, LoadingRun, start_run
from vms.maintenance.messages import (
    LEADER,
    Batch,
    Committed,
    CutStands,
    Delivered,
    Done,
    Durable,
    Effect,
    Event,
    Forward,
    Handoff,
    Loaded,
    LoadView,
    LogReceived,
    ProposeCut,
    Pull,
    ReadRows,
    Received,
    ReceivedLogged,
    RecordChanged,
    RowsRead,
    RowsWritten,
    Scanned,
    ScanTable,
    Send,
    Superseded,
    Tick,
    Want,
    WriteRows,
)
from vms.maintenance.operations.delta_view import DeltaView
from vms.maintenance.operations.row_images import RowImages, split
from vms.maintenance.record import Definitions, Record
from vms.maintenance.source_rows import either, key_batch, row_changes
from vms.maintenance.timeline import TimelineBuffer, slots_of
from vms.maintenance.virtual_store import ALL_SLOTS, VirtualStore, read_columns
from vms.model.ring import Ring


class Phase(Enum):
    """Where in the epoch the member stands (see the module docstring)."""

    IDLE = "idle"
    HANDOFF = "handoff"
    SCANNING = "scanning"
    READING = "reading"
    PROPOSING = "proposing"
    RUNNING = "running"
    FINISHING = "finishing"
    DONE = "done"


class Member:
    """State of one member. `epoch` is the last epoch whose cut is in the state; 0: an empty state."""

    def __init__(self, id_: str, *, log: bool = True) -> None:
        self.id = id_
        self._log = log
        self.store = VirtualStore()
        self.epoch = 0
        self.generation = 0
        self.ring: Ring | None = None
        self.phase = Phase.IDLE
        #: Watermarks of the last cut that stands.
        self.durable: Watermarks = {}
        self.buffer = TimelineBuffer()
        self.delivery = Delivery()
        self._record = Record()
        self._definitions: Definitions | None = None
        self._run: EpochRun | LoadingRun | None = None
        #: (sender, delivery) of forwarded rows that wait in the buffer, and of those in the cut under way.
        self._unanswered: list[tuple[str, int]] = []
        self._in_cut: list[tuple[str, int]] = []
        #: What other members sent for the epoch under way, by (edge, sender); and for later ones.
        self._inbox: dict[tuple[str, str], Batch | Handoff] = {}
        self._early: list[tuple[str, Batch | Handoff]] = []
        self._handoffs: dict[str, Handoff] = {}
        self._scans: dict[str, Scan] = {}
        self._loads: dict[str, LoadedStore] = {}
        self._taken: dict[str, pa.RecordBatch] = {}
        self._marks: Watermarks = {}
        self._unwritten: set[str] = set()

    # --- events ----------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Effect]:
        """The only way in. Events that answer an epoch that is over are ignored."""
        match event:
            case Delivered():
                return self.delivery.deliver(event)
            case Received():
                return self._receive(event)
            case RecordChanged():
                return self._record_changed(event)
            case Scanned() if self.phase is Phase.SCANNING and event.epoch == self._record.epoch:
                return self._scanned(event)
            case Loaded() if self.phase is Phase.SCANNING and event.epoch == self._record.epoch:
                return self._loaded(event)
            case RowsRead() if self.phase is Phase.READING and event.epoch == self._record.epoch:
                return self._propose(event)
            case CutStands() if self.phase is Phase.PROPOSING and event.cut.record == self._record:
                return self._cut_stands(event)
            case ReceivedLogged() if self.phase is Phase.FINISHING and event.epoch == self._record.epoch:
                return self._finished("received")
            case RowsWritten() if self.phase is Phase.FINISHING and event.epoch == self._record.epoch:
                return self._finished("rows")
            case Tick():
                return self._tick()
        return []

    def _current(self, generation: int, epoch: int) -> bool:
        return (generation, epoch) == (self._record.generation, self._record.epoch)

    def _receive(self, event: Received) -> list[Effect]:
        message, sender = event.message, event.sender
        match message:
            case Forward():
                return self._forwarded(sender, message)
            case Durable():
                return self.delivery.durable(sender, message)
            case Batch() | Handoff():
                return self._batch(sender, message)
            case Pull():
                return self._pull(sender, message)
        return []

    def _tick(self) -> list[Effect]:
        effects = self.delivery.resend()
        record = self._record
        if self.phase is Phase.HANDOFF:
            missing = [m for m in self._old_members() if m != self.id and (Handoff.edge, m) not in self._inbox]
            effects += [Send(m, Pull(record.generation, record.epoch, Handoff.edge)) for m in missing]
        elif self.phase is Phase.RUNNING and self._run is not None:
            effects += [Send(m, Pull(record.generation, record.epoch, e)) for e, m in self._run.missing()]
        elif self.phase is Phase.DONE:
            effects.append(self._done())
        elif self.phase is Phase.IDLE and (len(self.buffer) or self._unanswered):
            effects.append(Send(LEADER, Want(self.id)))
        return effects

    # --- source rows -----------------------------------------------------------------------------------------

    def _forwarded(self, sender: str, message: Forward) -> list[Effect]:
        """Rows for slots that this member owns. Under another ring they are left for the sender to send anew."""
        if self.ring is None or (message.generation, message.ring) != (self.generation, self.ring.version):
            return []
        if self.phase is Phase.HANDOFF:
            return []
        self.buffer.offer(message.table, message.region, message.rows)
        self._unanswered.append((sender, message.delivery))
        return [Send(LEADER, Want(self.id))] if self.phase is Phase.IDLE else []

    def _answer(self) -> list[Effect]:
        """Tell the senders that what was in the cut is durable."""
        assert self.ring is not None
        answers: list[Effect] = [
            Send(sender, Durable(delivery, self.generation, self.ring.version, self._record.epoch))
            for sender, delivery in dict.fromkeys(self._in_cut)
        ]
        self._in_cut = []
        return answers

    # --- the record ------------------------------------------------------------------------------------------

    def _record_changed(self, event: RecordChanged) -> list[Effect]:
        record = event.record
        if record.epoch < self._record.epoch or record == self._record:
            return []
        if record.committed:
            return self._commit(record, event.definitions)
        return self._begin(record, event.definitions)

    def _commit(self, record: Record, definitions: Definitions) -> list[Effect]:
        """The epoch is committed. A member that was not part of it only takes note."""
        mine = record.epoch == self.epoch and self.phase in (Phase.FINISHING, Phase.DONE)
        if not mine and self.id in definitions.ring:
            return [Superseded(f"epoch {record.epoch} was committed; this copy has not finished it")]
        self._record, self._definitions = record, definitions
        self.phase, self._run, self._inbox, self._handoffs = Phase.IDLE, None, {}, {}
        effects = self._follow(definitions.ring, record.generation)
        if not mine:
            return effects
        if not self._log:
            effects += self._answer()
        self.store.sweep()
        return [*effects, Committed(record.epoch)]

    def _follow(self, ring: Ring, generation: int) -> list[Effect]:
        """Use this ring for what arrives from now on."""
        if self.ring is not None and (self.ring.version, self.generation) == (ring.version, generation):
            return []
        self.ring, self.generation = ring, generation
        self._unanswered, self._in_cut = [], []
        return self.delivery.use(ring, generation)

    def _begin(self, record: Record, definitions: Definitions) -> list[Effect]:
        """An epoch was issued: get the state to where it starts, then make the cut."""
        ring, before = definitions.ring, definitions.previous_ring or definitions.ring
        if record.previous and self.id in before:
            if (self._complete_epoch(), self.generation) != (record.previous, record.generation):
                return [Superseded(f"epoch {record.epoch} starts from {record.previous}, this copy from {self.epoch}")]
        else:
            self._forget()
        self._record, self._definitions = record, definitions
        self._run, self._inbox, self._handoffs, self._scans, self._loads = None, {}, {}, {}, {}
        moved = definitions.previous_ring is not None
        effects = self._hand_over(before, ring) if moved else []
        effects += self._follow(ring, record.generation)
        if self.id not in ring:
            self._forget()
            self.phase = Phase.IDLE
            return effects
        self.phase = Phase.HANDOFF
        early, self._early = self._early, []
        effects += self._check_handoffs() if moved else self._after_handoff()
        for sender, message in early:
            effects += self._batch(sender, message)
        return effects

    def _complete_epoch(self) -> int | None:
        """The epoch at whose end the state stands; None in the middle of one, where another copy was faster."""
        return None if self.phase is Phase.RUNNING else self.epoch

    def _forget(self) -> None:
        """Start from nothing."""
        self.store = VirtualStore()
        self.epoch = 0
        self.durable = {}
        self.buffer.reset({})
        self._unanswered, self._in_cut = [], []

    # --- moving slots ----------------------------------------------------------------------------------------

    def _old_members(self) -> tuple[str, ...]:
        assert self._definitions is not None and self._definitions.previous_ring is not None
        return self._definitions.previous_ring.members

    def _hand_over(self, old: Ring, new: Ring) -> list[Effect]:
        """Send every member of the new ring the slots that move to it from here, then forget them."""
        if self.id not in old:
            return []
        lost = old.owned(self.id) & ~new.owned(self.id)
        for member in new.members:
            if member == self.id:
                continue
            moving = lost & new.owned(member)
            state = self.store.export(moving) if moving.any() else {}
            marks = {r: np.where(moving, m, 0) for r, m in self.durable.items()} if moving.any() else {}
            self._handoffs[member] = Handoff(self._record.generation, self._record.epoch, state, marks)
        self.store.drop(lost)
        self.durable = {r: np.where(lost, 0, m) for r, m in self.durable.items()}
        self.buffer.lose(lost)
        return [Send(member, handoff) for member, handoff in self._handoffs.items()]

    def _check_handoffs(self) -> list[Effect]:
        """Go on when every member of the old ring has handed over."""
        senders = [m for m in self._old_members() if m != self.id]
        if any((Handoff.edge, m) not in self._inbox for m in senders):
            return []
        assert self._definitions is not None
        if self.epoch == 0:
            # Ring and catalog never change with one epoch, so the state that comes is of this program.
            self.store.install(self._definitions.program)
            self.store.follow_all()
        for m in senders:
            handoff = self._inbox[Handoff.edge, m]
            assert isinstance(handoff, Handoff)
            self.store.load(handoff.state)
            self.buffer.gain(handoff.watermarks)
            for region, marks in handoff.watermarks.items():
                mine = self.durable.get(region)
                self.durable[region] = marks.copy() if mine is None else np.maximum(mine, marks)
        return self._after_handoff()

    # --- the cut ---------------------------------------------------------------------------------------------

    def _after_handoff(self) -> list[Effect]:
        assert self._definitions is not None
        program, epoch = self._definitions.program, self._record.epoch
        tables, views = self._wanted()
        self.phase = Phase.SCANNING
        if not tables and not views:
            return self._read_unresolved()
        loads: list[Effect] = [LoadView(epoch, v, program.loads[v].folder) for v in views]
        return [*(ScanTable(epoch, t) for t in tables), *loads]

    def _wanted(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The tables to scan and the views to load."""
        assert self._definitions is not None
        program, generation = self._definitions.program, self._record.generation
        return self.store.tables_to_scan(program, generation), self.store.views_to_load(program, generation)

    def _all_read(self) -> list[Effect]:
        """Go on when every table is scanned and every view that a bulk job has built is loaded."""
        tables, views = self._wanted()
        done = len(self._scans) == len(tables) and len(self._loads) == len(views)
        return self._read_unresolved() if done else []

    def _scanned(self, event: Scanned) -> list[Effect]:
        assert self._definitions is not None and self.ring is not None
        owned = self.ring.owned(self.id)
        mine = event.rows.filter(pa.array(owned[slots_of(event.rows)]))
        self._scans[event.table] = Scan(mine, event.positions, event.horizon)
        for region, seq in event.positions.items():
            self.buffer.cover(region, owned, seq)
        return self._all_read()

    def _loaded(self, event: Loaded) -> list[Effect]:
        assert self._definitions is not None and self.ring is not None
        program, view = self._definitions.program, event.view
        load = Load(program.loads[view], event.state)
        loaded = self._loads[view] = LoadedStore(self.store, program, self.ring, self.id, view, load)
        if len(self.ring.members) > 1:
            loaded.load = replace(load, state=loaded.store.export(ALL_SLOTS))  # the cut has the member's slots alone
        return self._all_read()

    def _read_unresolved(self) -> list[Effect]:
        """Close the buffer and find the rows that must be read again."""
        assert self._definitions is not None
        program = self._definitions.program
        taken, self._marks = self.buffer.take(), self.buffer.snapshot()
        self._taken = {t: rows for t, rows in taken.items() if t in program.plan.sources or t in program.queued}
        self._in_cut, self._unanswered = self._unanswered, []
        keys = {}
        for name, rows in self._taken.items():
            table, columns = program.tables[name], read_columns(program.tables[name], program.plan)
            if name in self._scans:
                view = DeltaView(table, columns, self.store.pool)
                scan = self._scans[name]
                view.replace(row_changes(table, columns, scan.rows, self.store.pool), horizon=scan.horizon)
                keys[name] = self._unresolved(view, rows)
            elif name in self.store.delta_views and name in program.plan.sources:
                keys[name] = self._unresolved(self.store.delta_views[name], rows)
        for loaded in self._loads.values():
            for name, rows in loaded.changes(self._taken, self._scans).items():
                if name not in self._scans:
                    found = self._unresolved(loaded.store.delta_views[name], rows)
                    keys[name] = either(keys[name], found) if name in keys else found
        keys = {name: batch for name, batch in keys.items() if batch.num_rows}
        self.phase = Phase.READING
        if keys:
            return [ReadRows(self._record.epoch, keys)]
        return self._propose(RowsRead(self._record.epoch, {}, {}))

    def _unresolved(self, view: DeltaView | RowImages, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The keys of the rows that the DeltaView cannot tell; images tell every row."""
        changes, _ = split(row_changes(view.table, view.columns, rows, self.store.pool))
        unresolved = np.empty(0, np.int64) if isinstance(view, RowImages) else view.unresolved(changes)
        return key_batch(view.table, changes, unresolved, self.store.pool)

    def _propose(self, read: RowsRead) -> list[Effect]:
        loads = {view: loaded.load for view, loaded in self._loads.items()}
        cut = Cut(self._record, self._taken, read.found, read.absent, self._scans, self._marks, loads)
        self._taken = {}
        self.phase = Phase.PROPOSING
        if self._log:
            return [ProposeCut(cut)]
        return self._cut_stands(CutStands(cut, True))

    def _cut_stands(self, event: CutStands) -> list[Effect]:
        """From here on everything is a pure function of the state and the cuts."""
        assert self._definitions is not None and self.ring is not None
        effects: list[Effect] = []
        if not event.ours:
            self._in_cut, self._unanswered = [], []
            self.buffer.reset(event.cut.watermarks)
        elif self._log:
            effects += self._answer()
        self.durable = event.cut.watermarks
        ready, self._loads = self._loads if event.ours else {}, {}
        self._run = start_run(self.store, self._definitions.program, self.ring, self.id, event.cut, ready)
        self.epoch, self.phase = self._record.epoch, Phase.RUNNING
        for (edge, sender), message in self._inbox.items():
            if isinstance(message, Batch):
                self._run.receive(edge, sender, message.rows)
        return effects + self._advance()

    # --- the exchange ----------------------------------------------------------------------------------------

    def _batch(self, sender: str, message: Batch | Handoff) -> list[Effect]:
        if (message.generation == self._record.generation and message.epoch > self._record.epoch) or (
            message.generation > self._record.generation
        ):
            self._early.append((sender, message))
            return []
        if not self._current(message.generation, message.epoch) or (message.edge, sender) in self._inbox:
            return []
        self._inbox[message.edge, sender] = message
        if isinstance(message, Handoff):
            return self._check_handoffs() if self.phase is Phase.HANDOFF else []
        if self.phase is not Phase.RUNNING or self._run is None:
            return []
        self._run.receive(message.edge, sender, message.rows)
        return self._advance()

    def _advance(self) -> list[Effect]:
        run = self._run
        assert run is not None
        already = set(run.sent)
        run.advance()
        record = self._record
        effects: list[Effect] = [
            Send(to, Batch(record.generation, record.epoch, edge, rows))
            for (edge, to), rows in run.sent.items()
            if (edge, to) not in already
        ]
        return effects + (self._finish(run) if run.finished else [])

    def _pull(self, sender: str, message: Pull) -> list[Effect]:
        if not self._current(message.generation, message.epoch):
            return []
        if message.edge == Handoff.edge:
            handoff = self._handoffs.get(sender)
            return [] if handoff is None else [Send(sender, handoff)]
        if self._run is None or (message.edge, sender) not in self._run.sent:
            return []
        rows = self._run.sent[message.edge, sender]
        return [Send(sender, Batch(message.generation, message.epoch, message.edge, rows))]

    # --- the end of an epoch ---------------------------------------------------------------------------------

    def _finish(self, run: EpochRun | LoadingRun) -> list[Effect]:
        self.phase = Phase.FINISHING
        record = self._record
        self._unwritten = {"rows"}
        effects: list[Effect] = []
        if self._log and (len(run.ring.members) > 1 or self._inbox):
            self._unwritten.add("received")
            effects.append(LogReceived(record.generation, record.epoch, [(s, m) for (_, s), m in self._inbox.items()]))
        return [*effects, WriteRows(record.epoch, record.generation, run.views)]

    def _finished(self, part: str) -> list[Effect]:
        self._unwritten.discard(part)
        if self._unwritten:
            return []
        self.phase = Phase.DONE
        return [self._done()]

    def _done(self) -> Effect:
        return Send(LEADER, Done(self._record.generation, self._record.epoch, self.id))

    # --- recovery --------------------------------------------------------------------------------------------

    def replay(self, cut: Cut, definitions: Definitions, received: Sequence[tuple[str, Batch | Handoff]]) -> None:
        """Bring the state over one epoch whose cut and input stand in the log (thesis Algorithm 4.1).

        What the member would send or write is known to be where it belongs: the epoch was committed.
        """
        record = cut.record
        self.handle(RecordChanged(record, definitions))
        for sender, message in received:
            self.handle(Received(sender, message))
        if self.phase is Phase.SCANNING:
            self.phase = Phase.PROPOSING
        self.handle(CutStands(cut, False))
        if self.phase is not Phase.FINISHING:
            raise CorruptState(f"member {self.id}: the log of epoch {record.epoch} is not complete")
        self.handle(RecordChanged(record.commit(), definitions))

    def checkpoint(self) -> Checkpoint:
        """The whole state at the end of a committed epoch."""
        return Checkpoint(self._record, self.durable, self.store.export(ALL_SLOTS))

    def restore(self, checkpoint: Checkpoint, definitions: Definitions) -> None:
        """Take the state of a checkpoint; only in a new member."""
        record = checkpoint.record
        self.store.install(definitions.program)
        self.store.follow_all()
        self.store.load(checkpoint.state)
        self._record, self._definitions = record, definitions
        self.epoch, self.generation, self.ring = record.epoch, record.generation, definitions.ring
        self.durable = checkpoint.watermarks
        self.buffer.reset(self.durable)
        self.delivery.use(definitions.ring, record.generation)
