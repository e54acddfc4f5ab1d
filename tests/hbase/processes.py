"""View Managers as real processes over a real HBase, and clients that write and read meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from vms.devcluster.cluster import DevCluster
from vms.manager.database import Database
from vms.ring.membership import ManagerInfo, Membership

#: Rows that were changed but are not in the views: a read whose two views do not agree.
BY_SHOP = "SELECT shop, sum(price) AS total, count(*) AS n FROM {table} GROUP BY shop"
WHOLE = "SELECT sum(price) AS total, count(*) AS n FROM {table}"


class Process:
    """One `vms manager run`."""

    def __init__(self, cluster: DevCluster, root: str, name: str, folder: Path, *flags: str) -> None:
        self.name, self.log = name, folder / f"{name}.log"
        #: Whether the test has ended it.
        self.told = False
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            *(str(Path(sys.executable).parent / "vms"), "--store", f"{cluster.address}&root={root}", "manager", "run"),
            *("--id", name, "--home", str(folder / name), "--log", str(folder / "log"), "--epoch-interval", "0.1"),
            *("--session-timeout", "4", "--log-format", "json", *flags),
        ]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ})

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.told = self.told or number in (signal.SIGKILL, signal.SIGTERM)
        self._process.send_signal(number)

    def end(self, seconds: float = 60) -> int:
        """Its exit code; killed when the time is over."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def tail(self) -> str:
        return "".join(self.log.read_text().splitlines(keepends=True)[-12:]) if self.log.exists() else ""


class Managers:
    """The processes by name, and what ZooKeeper says of them."""

    def __init__(self, cluster: DevCluster, root: str, folder: Path) -> None:
        self._cluster, self._root, self._folder = cluster, root, folder
        self.all: dict[str, Process] = {}

    def start(self, name: str, *flags: str) -> Process:
        self.all[name] = Process(self._cluster, self._root, name, self._folder, *flags)
        return self.all[name]

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 200) -> None:
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while not condition():
            pause.wait(0.1)
            crashed = [p.name for p in self.all.values() if not p.told and not p.alive]
            if crashed or time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come about; {self.describe()}")

    def describe(self) -> str:
        return "\n".join(f"--- {p.name} (alive: {p.alive})\n{p.tail()}" for p in self.all.values())

    def stop(self) -> None:
        for process in self.all.values():
            if process.alive:
                process.kill(signal.SIGCONT)
                process.kill(signal.SIGKILL)
        for process in self.all.values():
            process.end()


def living(db: Database) -> dict[str, ManagerInfo]:
    return membership(db).managers()


def membership(db: Database) -> Membership:
    assert db.remote is not None
    return db.remote.membership


def ring(db: Database) -> set[str]:
    coordination = membership_coordination(db)
    record = coordination.record()
    return set(coordination.ring(record.ring).members) if record.ring else set()


def membership_coordination(db: Database):  # type: ignore[no-untyped-def]
    return db.backend.coordination


class Reader(threading.Thread):
    """Reads two views at one committed epoch again and again: the shops must add up to the whole."""

    def __init__(self, db: Database, by_shop: str, whole: str) -> None:
        super().__init__(daemon=True)
        self._db, self._names = db, (by_shop, whole)
        self._end = threading.Event()
        self.reads, self.wrong, self.failed = 0, [], []

    def run(self) -> None:
        while not self._end.is_set():
            try:
                (by_shop, whole), epoch = self._db.read_together(self._names)
            except Exception as failure:
                self.failed.append(repr(failure))
                continue
            self.reads += 1
            shops = [(sum(v or 0 for v in by_shop.column("total").to_pylist()), sum(by_shop.column("n").to_pylist()))]
            all_ = [(r["total"] or 0, r["n"]) for r in whole.to_pylist()] or [(0, 0)]
            if shops != all_:
                self.wrong.append((epoch, shops, all_))

    def stop(self) -> None:
        self._end.set()
        self.join()


def rows(ids: list[int], shops: list[int], prices: list[int]) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "shop": pa.array(shops, pa.int64()), "price": pa.array(prices, pa.int64())}
    )
