"""A whole cluster in one process on a manual clock, from a seed: hosts, links, ZooKeeper's part, store, leader.

The members, the leader and recovery are the shipped ones; this file plays everything around them, badly:
messages are lost, doubled, delayed and overtake each other; writes land late, in pieces, or after their writer
is dead; hosts crash, hang and lose their sessions while they go on working. All chance comes from one `Random`,
so a seed replays exactly. Every commit and every read goes to the `Checker`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random
from typing import Any

from vms.errors import TableMissing
from vms.maintenance.cut import Watermarks
from vms.maintenance.leader import Desired, Leader
from vms.maintenance.member import Member, Phase
from vms.maintenance.messages import (
    LEADER,
    Acknowledge,
    Committed,
    CutStands,
    Delivered,
    Effect,
    Event,
    LogReceived,
    Message,
    ProposeCut,
    ReadRows,
    Received,
    ReceivedLogged,
    RecordChanged,
    RowsRead,
    RowsWritten,
    Scanned,
    ScanTable,
    Send,
    StateLost,
    Superseded,
    Tick,
    WriteRows,
)
from vms.maintenance.record import Definitions, Program, Record
from vms.maintenance.source_rows import with_slots
from vms.manager.recovery import recover
from vms.manager.store_io import read_keys, scan_table
from vms.model.catalog import Catalog
from vms.model.ring import Ring
from vms.model.rowkey import encode_keys
from vms.plan.frontend import ViewPlan, plan_view
from vms.plan.plan import MaintenancePlan
from vms.ring.assigner import assign
from vms.store.base import Mutation
from vms.stream.base import SourceBatch
from vms.stream.decode import RowDecoder
from vms.stream.embedded import EmbeddedSource
from vms.testing.checker import Checker, Taken
from vms.testing.memory_log import MemoryLog
from vms.testing.memory_store import MemoryStore
from vms.testing.workload import SMALL, Workload
from vms.viewtable.layout import FAMILIES, ViewLayout

#: Simulated milliseconds between two ticks of a host.
TICK = 30


@cache
def _plan(workload: Workload, name: str, sql: str) -> ViewPlan:
    return plan_view(name, sql, workload.tables)


@dataclass(eq=False)
class Copy:
    """One member as one host runs it. `lost`: the log holds no state from which it could go on."""

    host: Host
    member: Member
    record: Record
    lost: bool = False
    batches: dict[int, SourceBatch] = field(default_factory=dict)
    scanned: dict[str, int] = field(default_factory=dict)
    read_at: int = 0
    reads: RowsRead | None = None


@dataclass(eq=False)
class Host:
    """A process. With `session` False it has lost ZooKeeper and does not know yet: a zombie."""

    name: str
    alive: bool = True
    session: bool = True
    #: Until then it hangs: whatever is for it waits.
    hangs_until: int = 0
    record: Record = field(default_factory=Record)
    leader: Leader = field(default_factory=Leader)
    copies: dict[str, Copy] = field(default_factory=dict)


class Cluster:
    """The parts and their life; `vms.testing.simulate` decides what happens to them."""

    def __init__(
        self,
        random: Random,
        members: Sequence[str],
        hosts: int,
        *,
        log: MemoryLog | None,
        loss: float = 0.0,
        repeat: float = 0.0,
        slow: float = 0.0,
        make_member: Callable[..., Member] = Member,
        workload: Workload = SMALL,
    ) -> None:
        self.random, self.now = random, 1_000
        self._workload = workload
        self._loss, self._repeat, self._slow = loss, repeat, slow
        self._make_member = make_member
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = self._deliveries = 0
        self.store, self.log = MemoryStore(), log
        self.source = EmbeddedSource(self.store)
        self.checker = Checker(self.store, workload.tables, workload.answers)
        self.hosts = [Host(f"host{i}") for i in range(hosts)]
        self.cut_off: set[frozenset[str]] = set()
        self.record = Record()
        self.rings: dict[int, Ring] = {}
        self.catalogs = {0: Catalog()}
        self._programs: dict[int, Program] = {}
        self.leader_host = self.hosts[0]
        self.home: dict[str, Host] = {}
        self.commits = 0
        for table in workload.tables.values():
            self.store.create_table(table.name, {table.family: FAMILIES["v"]}, stream=True)
            self.change_catalog(self.catalog.with_table(table))
        self.add_ring(members)
        for host in self.hosts:
            self.after(self.random.randint(1, TICK), partial(self._tick, host))

    # --- time ------------------------------------------------------------------------------------------------

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Do it that much later. What is due at one moment happens in an order that the seed decides."""
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self.random.getrandbits(32) << 20 | self._count, action))

    def _soon(self, action: Callable[[], None]) -> None:
        slow = self.random.random() < self._slow
        self.after(self.random.randint(50, 600) if slow else self.random.randint(0, 8), action)

    def run_until(self, moment: int) -> None:
        while self._queue and self._queue[0][0] <= moment:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = max(self.now, moment)

    # --- what ZooKeeper holds --------------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        return self.catalogs[max(self.catalogs)]

    def change_catalog(self, catalog: Catalog) -> None:
        self.catalogs[catalog.version] = catalog

    @property
    def ring(self) -> Ring:
        return self.rings[max(self.rings)]

    def add_ring(self, members: Sequence[str]) -> None:
        version = max(self.rings, default=0) + 1
        self.rings[version] = assign(version, members)

    def program(self, version: int) -> Program:
        if version not in self._programs:
            catalog = self.catalogs[version]
            plans = [_plan(self._workload, v.name, v.sql).plan for v in catalog.views.values()]
            created = {v.name: v.created for v in catalog.views.values()}
            self._programs[version] = Program(version, catalog.tables, MaintenancePlan.merge(plans), created)
        return self._programs[version]

    def resolve(self, record: Record) -> Definitions:
        before = self.rings[record.previous_ring] if record.previous_ring != record.ring else None
        return Definitions(self.rings[record.ring], before, self.program(record.catalog))

    def compare_and_set(self, expected: Record, record: Record) -> None:
        if self.record != expected:
            return
        self.record = record
        if record.committed:
            self._committed(record)
        for host in self.hosts:
            self._soon(partial(self._see_record, host))

    def _committed(self, record: Record) -> None:
        self.commits += 1
        views = {v.name: v.sql for v in self.catalogs[record.catalog].views.values()}
        followed = self.program(record.catalog).plan.sources
        self.checker.committed(record, self.rings[record.ring], followed, views)
        for name in views:
            self.checker.read(record.epoch, name, self.read(record, name))
        self._soon(lambda: self._drop_dead_tables(record))

    def read(self, record: Record, name: str) -> Any:
        """The view's rows as a reader gets them."""
        table = self.catalogs[record.read.catalog].views[name].table(record.read.generation)
        return self.layout(record, name).table(self.store.scan(table, before=record.read.epoch + 1))

    def layout(self, record: Record, name: str) -> ViewLayout:
        return ViewLayout(self.program(record.read.catalog).plan.outputs[name])

    def _drop_dead_tables(self, record: Record) -> None:
        for name in self.catalogs[record.catalog].outlived(self.store.tables(), record.generation):
            self.store.drop_table(name)

    # --- hosts -----------------------------------------------------------------------------------------------

    def _tick(self, host: Host) -> None:
        self.after(TICK + self.random.randint(0, 5), lambda: self._tick(host))
        if not host.alive or host.hangs_until > self.now:
            return
        for copy in list(host.copies.values()):
            if copy.lost:
                self._to_leader(host, StateLost(host.record.generation, host.record.epoch, copy.member.id))
            else:
                self.feed(copy, Tick())
        if host is self.leader_host:
            self._rehost()
            self._lead(host)
        if host.session:
            self._see_record(host)

    def _lead(self, host: Host) -> None:
        record = host.record
        members = self.rings[record.ring].members if record.ring else ()
        desired = Desired(max(self.rings), max(self.catalogs))
        step = host.leader.decide(record, members, desired, self.now, due=True)
        if step is None:
            return
        if not step.record.committed:
            for view in self.catalogs[step.record.catalog].views.values():
                if view.table(step.record.generation) not in self.store.tables():
                    self.store.create_table(view.table(step.record.generation), FAMILIES)
        self._soon(lambda: self.compare_and_set(step.expected, step.record))

    def _see_record(self, host: Host) -> None:
        """A watch fired: the record as it is now; what stood there in between is not seen."""
        if not host.alive or host.hangs_until > self.now or not host.session or host.record == self.record:
            return
        host.record = self.record
        for copy in list(host.copies.values()):
            if copy.lost and host.record.generation > copy.record.generation:
                copy.lost, copy.member = False, self._make_member(copy.member.id, log=self.log is not None)
                if self.log is not None:
                    self.log.create(copy.member.id, host.record.generation)
            self.feed(copy, RecordChanged(host.record, self.resolve(host.record)))

    def _rehost(self) -> None:
        """Every member that is needed runs on some host with a session."""
        needed = {*self.ring.members}
        if self.record.ring:
            needed |= {*self.rings[self.record.ring].members, *self.rings[self.record.previous_ring].members}
        able = [h for h in self.hosts if h.alive and h.session and h.hangs_until <= self.now]
        for member in sorted(needed):
            home = self.home.get(member)
            if able and (home is None or not home.alive or not home.session or member not in home.copies):
                self.load(self.random.choice(able), member)

    def load(self, host: Host, member: str) -> None:
        """Start the member on the host, from what its log holds.

        The record is read after the host was chosen: what the log has lost may be of the newest generation.
        """
        self.home[member] = host
        self._see_record(host)
        record = host.record
        effects: list[Effect] = []
        in_use = record.epoch and (member in self.rings[record.ring] or member in self.rings[record.previous_ring])
        if self.log is not None and not in_use and not self.log.knows(member):
            self.log.create(member, record.generation)
        if record.epoch and self.log is not None and self.log.knows(member):
            fresh, effects = recover(self.log, member, record, self.resolve, self._make_member)
        else:
            fresh = self._make_member(member, log=self.log is not None)
            if in_use:
                effects = [Superseded("nobody knows what this member cut before")]
        copy = host.copies[member] = Copy(host, fresh, record)
        copy.lost = any(isinstance(e, Superseded) for e in effects)
        if not copy.lost:
            self._perform_all(copy, effects)

    def crash(self, host: Host) -> None:
        """kill -9. What it had asked of log and store may land or not."""
        host.alive = False
        for member in host.copies:
            if self.log is not None:
                self.log.crash(member)
        host.copies = {}
        self.source.reset()

    def restart(self, host: Host) -> None:
        host.alive, host.session, host.hangs_until = True, True, 0
        host.leader, host.copies, host.record = Leader(), {}, self.record

    def calm(self) -> None:
        """From now on messages come through, once and in time."""
        self.cut_off.clear()
        self._loss = self._repeat = self._slow = 0.0

    def elect(self, host: Host) -> None:
        """The old leader may go on for a while: it does not know."""
        self.leader_host = host

    # --- source ----------------------------------------------------------------------------------------------

    def poll(self) -> None:
        """Each region's next batch goes to some member of some host."""
        copies = [c for h in self.hosts if h.alive for c in h.copies.values() if not c.lost]
        if not copies:
            return
        for batch in self.source.poll(self.random.choice((3, 20, 200))):
            copy = self.random.choice(copies)
            rows, _ = RowDecoder(self._workload.tables[batch.table]).decode(
                [(e.seq, m) for e in batch.entries for m in e.mutations]
            )
            self._deliveries += 1
            copy.batches[self._deliveries] = batch
            event = Delivered(
                self._deliveries, batch.table, batch.region, with_slots(self._workload.tables[batch.table], rows)
            )
            self._soon(partial(self.feed, copy, event))

    # --- the shell of a member -------------------------------------------------------------------------------

    def feed(self, copy: Copy, event: Event) -> None:
        """An event reaches the copy, if its host still runs it."""
        host = copy.host
        if not host.alive or host.copies.get(copy.member.id) is not copy or copy.lost:
            return
        if host.hangs_until > self.now:
            self.after(host.hangs_until - self.now + self.random.randint(0, 3), lambda: self.feed(copy, event))
            return
        self._perform_all(copy, self._handle(copy, event))

    def _handle(self, copy: Copy, event: Event) -> list[Effect]:
        if isinstance(event, RowsRead):
            copy.reads = event
        elif isinstance(event, RecordChanged):
            copy.record = event.record
            if not event.record.committed:
                copy.reads, copy.scanned = None, {}
        before = copy.member.epoch
        effects = copy.member.handle(event)
        if self.log is None and copy.member.epoch not in (before, 0):
            self._took(copy.member.id, copy.record, self._taken(copy, copy.member.durable))
        return effects

    def _perform_all(self, copy: Copy, effects: list[Effect]) -> None:
        for effect in effects:
            self._perform(copy, effect)

    def _answer(self, copy: Copy, event: Event) -> None:
        self._soon(lambda: self.feed(copy, event))

    def _later(self, copy: Copy, work: Callable[[], Event | None]) -> None:
        """Do the work on log or store some time from now, whoever has crashed by then, and answer."""

        def act() -> None:
            if copy.host.hangs_until > self.now:
                self.after(copy.host.hangs_until - self.now + self.random.randint(0, 40), act)
            elif copy.host.alive or self.random.random() < 0.5:
                event = work()
                if event is not None:
                    self._answer(copy, event)

        self._soon(act)

    def _perform(self, copy: Copy, effect: Effect) -> None:
        member = copy.member
        match effect:
            case Send(to, message) if to == LEADER:
                self._to_leader(copy.host, message)
            case Send(to, message):
                self._send(copy.host, member.id, to, message)
            case Acknowledge(delivery, _):
                batch = copy.batches.pop(delivery, None)
                if batch is not None:
                    self._later(copy, lambda: self.source.acknowledge(batch))
            case ScanTable():
                self._later(copy, lambda: self._scan(copy, effect))
            case ReadRows():
                self._later(copy, lambda: self._read(copy, effect))
            case ProposeCut(cut):
                taken = self._taken(copy, cut.watermarks)
                self._later(copy, lambda: self._propose(copy, effect, taken))
            case LogReceived():
                self._later(copy, lambda: self._log_received(member.id, effect))
            case WriteRows():
                self._write(copy, effect)
            case Committed():
                if self.log is not None and self.random.random() < 0.2 and member.phase is Phase.IDLE:
                    self.log.save_checkpoint(member.id, member.checkpoint())
            case Superseded():
                self._superseded(copy)

    def _superseded(self, copy: Copy) -> None:
        host, member = copy.host, copy.member.id
        if host.copies.get(member) is copy:
            del host.copies[member]
            self.source.reset()
            if self.home.get(member) is host:
                self.load(host, member)

    def _to_leader(self, host: Host, message: Message) -> None:
        if self.random.random() >= self._loss and not self._parted(host, self.leader_host):
            target = self.leader_host
            self._soon(lambda: target.leader.receive(message) if target.alive else None)

    def _parted(self, one: Host, other: Host) -> bool:
        return frozenset((one.name, other.name)) in self.cut_off

    def _send(self, host: Host, sender: str, to: str, message: Message) -> None:
        """To every host that runs the receiver, be it a zombie; each time perhaps not, perhaps twice."""
        for target in self.hosts:
            copy = target.copies.get(to)
            if copy is None or self._parted(host, target) or self.random.random() < self._loss:
                continue
            for _ in range(2 if self.random.random() < self._repeat else 1):
                self._soon(partial(self.feed, copy, Received(sender, message)))

    # --- log and store ---------------------------------------------------------------------------------------

    def _taken(self, copy: Copy, watermarks: Watermarks) -> Taken:
        """What the copy's cut holds besides the stream."""
        reads, read = copy.reads, {}
        for found in (reads.found, reads.absent) if reads is not None else ():
            for name, rows in found.items():
                table = self._workload.tables[name]
                keys = encode_keys([c.type for c in table.key_columns], [rows.column(k) for k in table.key])
                read.update({(name, key): copy.read_at for key in keys})
        return Taken(watermarks, dict(copy.scanned), read)

    def _took(self, member: str, record: Record, taken: Taken) -> None:
        self.checker.took(record.generation, member, record.epoch, taken)

    def _scan(self, copy: Copy, effect: ScanTable) -> Scanned:
        if effect.epoch == copy.record.epoch:  # a late one of an epoch that was given up is not taken in
            copy.scanned[effect.table] = self.store.arrivals
        return scan_table(
            self.store, self._workload.tables[effect.table], effect, lambda: self.store.highest_ts, lambda _: None
        )

    def _read(self, copy: Copy, effect: ReadRows) -> RowsRead:
        if effect.epoch == copy.record.epoch:
            copy.read_at = self.store.arrivals
        return read_keys(self.store, self._workload.tables, effect, lambda: self.store.highest_ts, lambda _: None)

    def _propose(self, copy: Copy, effect: ProposeCut, taken: Taken) -> Event | None:
        assert self.log is not None
        standing = self.log.propose(copy.member.id, effect.cut)
        if standing is None:
            self._superseded(copy)
            return None
        if standing[1]:
            self._took(copy.member.id, effect.cut.record, taken)
        return CutStands(*standing)

    def _log_received(self, member: str, effect: LogReceived) -> ReceivedLogged:
        assert self.log is not None
        self.log.append_received(member, effect.generation, effect.epoch, effect.batches)
        return ReceivedLogged(effect.epoch)

    def _write(self, copy: Copy, effect: WriteRows) -> None:
        """The rows land one by one, in any order; the answer comes when all are there."""
        catalog, plan = self.catalogs[copy.host.record.catalog], self.program(copy.host.record.catalog).plan
        rows = [
            (catalog.views[name].table(effect.generation), mutation)
            for name, changed in effect.views.items()
            for mutation in ViewLayout(plan.outputs[name]).mutations(changed, effect.epoch, copy.member.store.pool)
        ]
        left = len(rows)
        if not left:
            self._answer(copy, RowsWritten(effect.epoch))

        def put(table: str, mutation: Mutation) -> Event | None:
            nonlocal left
            left -= 1
            with suppress(TableMissing):  # a view or a generation that is gone: nobody reads it
                self.store.mutate(table, [mutation])
            return None if left else RowsWritten(effect.epoch)

        for table, mutation in rows:
            self._later(copy, partial(put, table, mutation))
