"""Several View Managers in one process over one embedded store, with real ZooKeeper and gRPC between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from vms.clock import Clock
from vms.manager.clustered import Clustered
from vms.manager.ddl import parse_create_table
from vms.manager.log import TransactionLog
from vms.manager.runtime import Runtime
from vms.ring.links import Links, Server
from vms.ring.membership import ManagerInfo, Membership
from vms.ring.session import Session
from vms.ring.zookeeper import ZooKeeperCoordination
from vms.store.base import Family
from vms.store.embedded import EmbeddedStore
from vms.stream.embedded import EmbeddedSource
from vms.stream.encode import RowEncoder
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DuckOracle
from vms.viewtable.layout import ViewLayout
from vms.viewtable.reader import read_view

TABLE = "CREATE TABLE sales (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)"
VIEWS = {
    "by_shop": "SELECT shop, sum(price) AS total, count(*) AS n FROM sales GROUP BY shop",
    "whole": "SELECT count(*) AS n, sum(price) AS total FROM sales",
    "pairs": "SELECT a.id, b.price FROM sales a JOIN sales b ON a.shop = b.id WHERE a.price > 50",
}


class Managers:
    """The store, and managers by name. All share one change stream: each takes what no other has under way."""

    def __init__(
        self,
        folder: Path,
        session: Callable[..., Session],
        *,
        log: bool = True,
        fsync: bool = False,
        interval: float = 0.02,
    ) -> None:
        self.folder, self._session, self._log = folder, session, log
        self._fsync, self._interval = fsync, interval
        self.store = EmbeddedStore(folder / "store")
        self.clock = Clock(0, lambda t: None)
        self.source = EmbeddedSource(self.store)
        self.coordination = ZooKeeperCoordination(session())
        self.table = parse_create_table(TABLE)
        self.store.create_table("sales", {self.table.family: Family()}, stream=True)
        self.coordination.change_catalog(
            self.coordination.catalog(), self.coordination.catalog().with_table(self.table)
        )
        for name, sql in VIEWS.items():
            before = self.coordination.catalog()
            self.coordination.change_catalog(before, before.with_view(name, sql))
        self.running: dict[str, Runtime] = {}
        self.sessions: dict[str, Session] = {}
        self.rows: dict[int, tuple[int, int]] = {}

    def start(self, name: str, *, folder: str = "log", room: int = 1, rehost_timeout: float = 60.0) -> Runtime:
        session = self._session()
        membership = Membership(session)
        secret = membership.secret()
        server = Server("127.0.0.1:0", secret)
        server.start()
        log = TransactionLog(self.folder / folder, fsync=self._fsync) if self._log else None
        info = ManagerInfo(name, server.address, log=log.identity if log else "", room=room)
        coordination = ZooKeeperCoordination(session)
        neighbours = Clustered(coordination, membership, server, Links(secret), info, rehost_timeout=rehost_timeout)
        runtime = Runtime(
            self.store,
            self.source,
            coordination,
            log,
            neighbours=neighbours,
            epoch_interval=self._interval,
            now_ms=self.clock.now,
        )
        runtime.start()
        self.running[name] = runtime
        self.sessions[name] = session
        return runtime

    def kill(self, name: str) -> None:
        """What a crash leaves: nothing is finished, ZooKeeper forgets the session, the stream delivers again."""
        runtime = self.running.pop(name)

        def die(*_: object) -> bool:
            raise Killed

        runtime.epochs.step = die  # type: ignore[method-assign]
        runtime.look()
        runtime._thread.join()
        self.sessions.pop(name).close()
        runtime.neighbours.close()
        self.source.reset()

    def write(self, changes: dict[int, tuple[int, int] | None]) -> None:
        """Rows by id: (shop, price), or None to delete."""
        encoder = RowEncoder(self.table)
        puts = {i: row for i, row in changes.items() if row is not None}
        if puts:
            rows = pa.table(
                {
                    "id": pa.array(puts, pa.int64()),
                    "shop": pa.array([r[0] for r in puts.values()], pa.int64()),
                    "price": pa.array([r[1] for r in puts.values()], pa.int64()),
                }
            )
            self.store.mutate("sales", encoder.puts(rows, self.clock.stamps(1)))
        gone = [i for i, row in changes.items() if row is None]
        if gone:
            keys = pa.table({"id": pa.array(gone, pa.int64())})
            self.store.mutate("sales", encoder.deletes(keys, self.clock.stamps(1)))
        self.rows.update(puts)
        for i in gone:
            self.rows.pop(i, None)

    def read(self, name: str) -> tuple[pa.Table, int]:
        """The view at the newest committed epoch."""
        runtime = next(iter(self.running.values()))
        plan = runtime.programs.plan(self.coordination.catalog(), name, VIEWS[name]).plan
        view = self.coordination.catalog().view(name)

        def point():  # type: ignore[no-untyped-def]
            read = self.coordination.record().read
            return read, read.number

        return read_view(self.store, ViewLayout(plan.outputs[name]).table, lambda p: view.table(p.generation), point)

    def expected(self, name: str) -> pa.Table:
        rows = sorted(self.rows.items())
        table = pa.table(
            {
                "id": pa.array([i for i, _ in rows], pa.int64()),
                "shop": pa.array([r[0] for _, r in rows], pa.int64()),
                "price": pa.array([r[1] for _, r in rows], pa.int64()),
            }
        )
        return DuckOracle().evaluate(VIEWS[name], {"sales": table})

    def settled(self) -> bool:
        record = self.coordination.record()
        newest = self.coordination.newest_ring(), self.coordination.catalog().version
        return record.committed and (record.ring, record.catalog) == newest and not self.source.lag().entries

    def wait(self, condition: Callable[[], bool], what: str = "") -> None:
        """Looks again and again; says what is there if the machine is too slow by far."""
        began = time.monotonic()
        pause = threading.Event()
        while not condition():
            pause.wait(0.02)
            for runtime in self.running.values():
                if runtime.failed is not None and not runtime.drained:
                    raise runtime.failed
            assert time.monotonic() - began < 90, f"{what}: {self.describe()}"

    def describe(self) -> str:
        phases = {
            name: {h.member.id: (h.member.phase.value, h.member.epoch, h.lost) for h in r.members}
            for name, r in self.running.items()
        }
        return f"{self.coordination.record()} {phases} {[r.warnings for r in self.running.values()]}"

    def check(self) -> None:
        """Everything is in, and every view equals its SQL."""
        self.wait(self.settled, "settle")
        for name in VIEWS:
            assert_same_rows(self.read(name)[0], self.expected(name))

    def close(self) -> None:
        for runtime in self.running.values():
            runtime.stop()
        self.source.close()
        self.store.close()


class Killed(BaseException):
    """The end of a manager's thread in a test."""
