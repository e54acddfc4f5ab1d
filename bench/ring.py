"""What the ring costs: the log, the exchange between members, and a crash.

Managers in one process, each with its own ZooKeeper session and gRPC port, over one embedded store: what is counted is
the processor time of all of them together. The store's own time is in it too, so that the figures are an upper bound.
"""

from __future__ import annotations

import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from vms.devcluster.zookeeper import DevZooKeeper
from vms.ring.session import Session
from vms.testing.managers import Managers

_BATCH = 2_000


def measure(changes: int, members: list[int], seed: int) -> Iterator[dict[str, Any]]:
    """One result after the other: for each number of members with the log off and on, then a crash."""
    with tempfile.TemporaryDirectory(prefix="vms-bench-ring-") as folder:
        zookeeper = DevZooKeeper(Path(folder, "zookeeper"), _free_port())
        zookeeper.up()
        try:
            _run(zookeeper, Path(folder, "warm"), _BATCH, 1, False, seed)
            for count in members:
                for log in (False, True):
                    place = Path(folder, f"{count}-{log}")
                    yield _run(zookeeper, place, changes, count, log, seed)
            yield _crash(zookeeper, Path(folder, "crash"), changes, seed)
        finally:
            zookeeper.kill()


def _run(zookeeper: DevZooKeeper, place: Path, changes: int, count: int, log: bool, seed: int) -> dict[str, Any]:
    managers, sessions = _start(zookeeper, place, count, log)
    first = managers.coordination.record().read.number
    began, cpu = time.perf_counter(), time.process_time()
    _write(managers, changes, seed)
    managers.wait(managers.settled, "settle")
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    epochs = managers.coordination.record().read.number - first
    peers = [p for r in managers.running.values() for p in r.neighbours.links.peers.values()]  # type: ignore[attr-defined]
    sent, size = sum(p.sent for p in peers), sum(p.bytes for p in peers)
    managers.check()
    _end(managers, sessions)
    return {
        "bench": "ring",
        "members": count,
        "log": "local" if log else "off",
        "changes": changes,
        "changes_per_s": round(changes / seconds),
        "cpu_s_per_million": round(cpu / changes * 1e6, 1),
        "epochs": epochs,
        "messages_per_epoch": round(sent / max(epochs, 1), 1),
        "bytes_per_epoch": round(size / max(epochs, 1)),
    }


def _crash(zookeeper: DevZooKeeper, place: Path, changes: int, seed: int) -> dict[str, Any]:
    """Of two managers one dies: from the end of its session to the first commit after that."""
    managers, sessions = _start(zookeeper, place, 2, True)
    _write(managers, changes, seed)
    managers.wait(managers.settled, "settle")
    state = sum(managers.running["m0"].memory.values())
    managers.kill("m0")
    before, began = managers.coordination.record().read.number, time.perf_counter()
    managers.write({1: (1, 1)})
    managers.wait(lambda: managers.coordination.record().read.number > before, "recover")
    seconds = time.perf_counter() - began
    managers.check()
    _end(managers, sessions)
    return {"bench": "recovery", "members": 2, "state_bytes": state, "recovery_s": round(seconds, 2)}


def _start(zookeeper: DevZooKeeper, place: Path, count: int, log: bool) -> tuple[Managers, list[Session]]:
    root, sessions = f"/bench-{uuid.uuid4().hex}", []

    def session() -> Session:
        sessions.append(Session(zookeeper.address, root))
        return sessions[-1]

    place.mkdir(parents=True)
    managers = Managers(place, session, log=log, fsync=True, interval=0.1)
    for number in range(count):
        managers.start(f"m{number}")

    def ready() -> bool:
        record = managers.coordination.record()
        return bool(record.ring) and len(managers.coordination.ring(record.ring).members) == count

    managers.wait(ready, "a ring")
    managers.wait(managers.settled, "settle")
    return managers, sessions


def _write(managers: Managers, changes: int, seed: int) -> None:
    random = Random(seed)
    for _ in range(max(1, changes // _BATCH)):
        managers.write(
            {random.randrange(changes): (random.randrange(500), random.randrange(60)) for _ in range(_BATCH)}
        )


def _end(managers: Managers, sessions: list[Session]) -> None:
    managers.close()
    for session in sessions:
        session.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
