"""The epoch protocol under faults, from a seed: `make simulate SEEDS=2000 START=0`.

`simulate(seed)` runs one history: a workload, faults, reads, then peace until everything has settled. It raises
`Violation` (or whatever the core raised) where a guarantee is broken, and the same seed does so again.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from random import Random

import click
import pyarrow as pa

from vms.errors import TableMissing
from vms.maintenance.member import Member
from vms.maintenance.record import Record
from vms.testing.checker import Violation
from vms.testing.cluster import Cluster, Host
from vms.testing.memory_log import MemoryLog
from vms.testing.workload import SMALL, Workload, Writer

#: Simulated milliseconds of workload and faults, and how long peace may take to settle everything. The second
#: is far above what any seed needs; beyond it, something waits for ever.
BUSY, SETTLE = 2_500, 20_000
FAULTS = (
    "crash",
    "hang",
    "session",
    "partition",
    "leader",
    "redeliver",
    "ring",
    "views",
    "split",
    "loss",
    "repeat",
    "slow",
    "disk",
)


@dataclass(frozen=True)
class Outcome:
    """What a run went through; for the report."""

    seed: int
    commits: int
    reads: int
    generations: int
    faults: tuple[str, ...]


def simulate(
    seed: int,
    *,
    faults: tuple[str, ...] | None = None,
    log: MemoryLog | None = None,
    make_member: Callable[..., Member] = Member,
    workload: Workload = SMALL,
    busy: int = BUSY,
) -> Outcome:
    """One history. `faults`, `log` and `make_member` are chosen by the seed unless given."""
    return _Run(seed, faults, log, make_member, workload).run(busy)


class _Run:
    def __init__(
        self,
        seed: int,
        faults: tuple[str, ...] | None,
        log: MemoryLog | None,
        make_member: Callable[..., Member],
        workload: Workload,
    ) -> None:
        self.seed, self.random = seed, Random(seed)
        random = self.random
        self.faults = tuple(f for f in FAULTS if random.random() < 0.4) if faults is None else faults
        self.names = [f"m{i}" for i in range(1, 6)]
        members = self.names[: random.randint(1, 5)]
        logged = random.random() < 0.8
        self.cluster = Cluster(
            random,
            members,
            hosts=random.randint(1, 4),
            log=(log or MemoryLog()) if logged or log is not None else None,
            loss=0.15 if "loss" in self.faults else 0.0,
            repeat=0.2 if "repeat" in self.faults else 0.0,
            slow=0.15 if "slow" in self.faults else 0.02,
            make_member=make_member,
            workload=workload,
        )
        self.workload, self.writer = workload, Writer(random, workload)
        self.reads = 0
        self.busy = True

    def run(self, busy: int) -> Outcome:
        cluster, random, views = self.cluster, self.random, self.workload.views
        for table, mutations in self.writer.load(cluster.now - 1):
            cluster.store.mutate(table, mutations)
        for name in sorted(views):
            if random.random() < self.workload.share:
                cluster.change_catalog(cluster.catalog.with_view(name, views[name]))
        for task, interval in ((self._write, 15), (self._poll, 10), (self._read, 60)):
            self._every(interval, task)
        for fault in self.faults:
            if hasattr(self, f"_{fault}"):
                self._every(random.choice((150, 400, 900)), getattr(self, f"_{fault}"))
        cluster.run_until(cluster.now + busy)
        self._peace()
        generations = cluster.record.generation
        return Outcome(self.seed, cluster.commits, self.reads, generations, self.faults)

    def _every(self, interval: int, task: Callable[[], None]) -> None:
        def act() -> None:
            if self.busy or task in (self._poll, self._read):
                task()
                self.cluster.after(self.random.randint(1, 2 * interval), act)

        self.cluster.after(self.random.randint(1, 2 * interval), act)

    # --- workload --------------------------------------------------------------------------------------------

    def _write(self) -> None:
        table, mutations = self.writer.write(self.cluster.now)
        self.cluster.store.mutate(table, mutations)

    def _poll(self) -> None:
        self.cluster.poll()

    def _read(self) -> None:
        """A reader takes its time: one part of the key range now, the rest later, at one epoch."""
        record = self.cluster.record
        views = sorted(self.cluster.catalogs[record.read.catalog].views)
        if views:
            self._read_part(record, self.random.choice(views), b"", [])

    def _read_part(self, record: Record, view: str, start: bytes, parts: list[pa.Table]) -> None:
        cluster, point = self.cluster, record.read
        table = cluster.catalogs[point.catalog].views[view].table(point.generation)
        stop = b"" if len(parts) == 2 else bytes([self.random.randint(1, 255), self.random.randint(0, 255)])
        try:
            rows = cluster.store.scan(table, start, stop, before=point.epoch + 1)
            if not stop or start < stop:
                parts.append(cluster.layout(record, view).table(rows))
                start = stop
        except TableMissing:
            return  # the generation was replaced: the reader starts again at a newer epoch
        if stop:
            cluster.after(self.random.randint(1, 300), lambda: self._read_part(record, view, start, parts))
        elif cluster.record.read.generation == point.generation:  # else the same (vms/viewtable/reader.py)
            self.reads += 1
            cluster.checker.read(point.epoch, view, pa.concat_tables(parts))

    # --- faults ----------------------------------------------------------------------------------------------

    def _some_host(self, *, alive: bool = True) -> Host | None:
        hosts = [h for h in self.cluster.hosts if h.alive == alive]
        return self.random.choice(hosts) if hosts else None

    def _crash(self) -> None:
        host = self._some_host()
        if host is not None:
            self.cluster.crash(host)
            self.cluster.after(self.random.randint(5, 300), lambda: self.cluster.restart(host))

    def _hang(self) -> None:
        host = self._some_host()
        if host is not None:
            host.hangs_until = self.cluster.now + self.random.randint(50, 900)
            if self.random.random() < 0.5:
                self._lose_session(host)

    def _session(self) -> None:
        host = self._some_host()
        if host is not None:
            self._lose_session(host)

    def _lose_session(self, host: Host) -> None:
        host.session = False
        if host is self.cluster.leader_host:
            self._leader()
        self.cluster.after(self.random.randint(20, 700), lambda: self._notice(host))

    def _notice(self, host: Host) -> None:
        """The zombie learns of it, and begins again with a new session."""
        if host.alive and not host.session:
            self.cluster.restart(host)
            self.cluster.source.reset()

    def _partition(self) -> None:
        pair = frozenset(h.name for h in self.random.sample(self.cluster.hosts, k=min(2, len(self.cluster.hosts))))
        self.cluster.cut_off.add(pair)
        self.cluster.after(self.random.randint(50, 500), lambda: self.cluster.cut_off.discard(pair))

    def _leader(self) -> None:
        self.cluster.elect(self.random.choice(self.cluster.hosts))

    def _redeliver(self) -> None:
        self.cluster.source.reset()

    def _ring(self) -> None:
        self.cluster.add_ring(self.random.sample(self.names, k=self.random.randint(1, 5)))

    def _views(self) -> None:
        views, catalog = self.workload.views, self.cluster.catalog
        name = self.random.choice(sorted(views))
        change = catalog.without_view(name) if name in catalog.views else catalog.with_view(name, views[name])
        self.cluster.change_catalog(change)

    def _split(self) -> None:
        table = self.random.choice(sorted(self.workload.tables))
        rows = sorted(self.cluster.store.history(table))
        if rows:
            self.cluster.store.split(table, self.random.choice(rows))

    def _disk(self) -> None:
        """The disk of a member is gone, and the host that used it."""
        host = self._some_host()
        if host is not None and self.cluster.log is not None and host.copies and self.random.random() < 0.3:
            member = self.random.choice(sorted(host.copies))
            self.cluster.crash(host)
            self.cluster.log.lose(member)
            self.cluster.after(self.random.randint(5, 300), lambda: self.cluster.restart(host))

    # --- the end ---------------------------------------------------------------------------------------------

    def _peace(self) -> None:
        """No more writes and faults: everything must settle, with every change in the views."""
        cluster = self.cluster
        self.busy = False
        deadline = cluster.now + SETTLE
        while cluster.now < deadline:
            cluster.calm()
            cluster.run_until(cluster.now + 10)  # shorter than the leader leaves an epoch committed
            if self._settled():
                followed = cluster.program(cluster.record.catalog).plan.sources
                return cluster.checker.converged(followed)
        state = [
            (h.name, h.alive, h.session, {m: c.member.phase.value for m, c in h.copies.items()}) for h in cluster.hosts
        ]
        raise Violation(f"not settled after {SETTLE} ms of peace: {cluster.record}, {state}")

    def _settled(self) -> bool:
        cluster, record = self.cluster, self.cluster.record
        wanted = (cluster.ring.version, cluster.catalog.version)
        return record.committed and not cluster.source.lag().entries and (record.ring, record.catalog) == wanted


# --- many seeds ------------------------------------------------------------------------------------------------


def attempt(seed: int) -> tuple[Outcome | None, str]:
    """The outcome, or the trace of what went wrong."""
    try:
        return simulate(seed), ""
    except Exception:
        return None, traceback.format_exc()


def attempts(start: int, seeds: int, jobs: int) -> Iterator[tuple[int, Outcome | None, str]]:
    """All seeds, on several processes."""
    with ProcessPoolExecutor(jobs) as pool:
        for seed, (outcome, trace) in zip(range(start, start + seeds), pool.map(attempt, range(start, start + seeds))):
            yield seed, outcome, trace


@click.command()
@click.option("--seeds", default=2000, show_default=True, help="How many histories.")
@click.option("--start", default=0, show_default=True, help="The first seed.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
def main(seeds: int, start: int, jobs: int) -> None:
    """Run the epoch protocol under faults; a failing seed is printed and replays exactly."""
    began, commits, reads, failed = time.monotonic(), 0, 0, 0
    for done, (seed, outcome, trace) in enumerate(attempts(start, seeds, jobs), 1):
        if outcome is None:
            failed += 1
            click.echo(f"seed {seed} failed:\n{trace}")
        else:
            commits, reads = commits + outcome.commits, reads + outcome.reads
        if done % 100 == 0 or done == seeds:
            click.echo(
                f"{done} of {seeds} seeds, {commits} epochs and {reads} reads checked, {failed} failed, "
                f"{time.monotonic() - began:.0f} s"
            )
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
