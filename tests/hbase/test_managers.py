"""Three View Managers as real processes over a real HBase: killed, joined, drained, with a load and a reader."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from processes import BY_SHOP, WHOLE, Managers, Reader, living, ring, rows

import vms
from vms.clock import wall_ms
from vms.config import load as configured
from vms.devcluster.cluster import DevCluster
from vms.errors import Conflict, StoreError, ViewTooOld
from vms.manager.daemon import Daemon
from vms.manager.database import Database
from vms.manager.ddl import parse_create_table
from vms.manager.hbase_backend import HBaseBackend
from vms.ring.membership import SINGLE
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DuckOracle
from vms.viewtable.layout import TTL_MS

pytestmark = pytest.mark.timeout(900)


class Load:
    """A seeded client: puts and deletes, and what the table then holds."""

    def __init__(self, db: Database, table: str, seed: int) -> None:
        self._db, self._table, self._random = db, table, Random(seed)
        self.rows: dict[int, tuple[int, int]] = {}

    def write(self, count: int = 80) -> None:
        random = self._random
        put = {random.randrange(600): (random.randrange(30), random.randrange(-500, 500)) for _ in range(count)}
        self._db.put(self._table, rows(list(put), [s for s, _ in put.values()], [p for _, p in put.values()]))
        self.rows.update(put)
        gone = random.sample(sorted(self.rows), min(len(self.rows), count // 8))
        self._db.delete(self._table, pa.table({"id": pa.array(gone, pa.int64())}))
        for id_ in gone:
            del self.rows[id_]

    def check(self) -> None:
        """Every view holds exactly what was written."""
        held = sorted(self.rows.items())
        table = rows([i for i, _ in held], [s for _, (s, _) in held], [p for _, (_, p) in held])
        for name in (f"{self._table}_by_shop", f"{self._table}_whole"):
            sql = self._db.catalog.view(name).sql
            read = self._db.view(name).read("latest", timeout=200)
            assert_same_rows(read, DuckOracle().evaluate(sql, {self._table: table}))


@pytest.fixture
def root() -> str:
    """A VMS of its own in the ZooKeeper of the cluster."""
    return f"/vms{uuid.uuid4().hex[:8]}"


@pytest.fixture
def managers(up: DevCluster, root: str, tmp_path: Path) -> Iterator[Managers]:
    made = Managers(up, root, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def db(up: DevCluster, root: str) -> Iterator[Database]:
    """A client without a manager of its own; what it attached is taken off again."""
    with vms.connect(f"{up.address}&root={root}") as client:
        yield client
        assert isinstance(client.backend, HBaseBackend)
        client.backend.attachments.detach()


@contextmanager
def under_way(db: Database, epoch: int) -> Iterator[None]:
    """As if the last manager had died in the middle of this epoch."""
    record = db.backend.coordination.record()
    begun = replace(record, epoch=epoch, committed=False)
    assert db.backend.coordination.compare_and_set(record, begun)
    yield
    assert db.backend.coordination.compare_and_set(begun, record)


def declare(db: Database, name: str) -> None:
    assert isinstance(db.backend, HBaseBackend)
    db.create_table(parse_create_table(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)"))
    db.backend.attachments.attach([db.catalog.table(name)])


def test_views_stay_exact_while_managers_die_join_and_are_drained(db: Database, managers: Managers, name: str) -> None:
    declare(db, name)
    load = Load(db, name, seed=6)
    load.write()
    for manager in ("a", "b", "c"):
        managers.start(manager)
    managers.wait(lambda: len(ring(db)) == 3, "a ring of three")
    db.create_view(f"{name}_by_shop", BY_SHOP.format(table=name))
    db.create_view(f"{name}_whole", WHOLE.format(table=name))
    load.check()
    reader = Reader(db, f"{name}_by_shop", f"{name}_whole")
    reader.start()

    def dead(victim: str) -> bool:
        load.write(20)
        return victim not in living(db)

    leader = db.remote.membership.leader()  # type: ignore[union-attr]
    others = sorted({"a", "b", "c"} - {leader})
    for victim in (others[0], leader):
        load.write()
        managers.all[victim].kill()
        load.write()
        managers.wait(lambda victim=victim: dead(victim), f"the end of {victim}")  # type: ignore[misc]
        load.write()
    load.check()
    managers.start("d")
    managers.wait(lambda: "d" in living(db) and bool(living(db)["d"].members), "members at d")
    load.write()
    db.remote.drain(others[1])  # type: ignore[union-attr]
    assert managers.all[others[1]].end() == 0
    load.write()
    load.check()
    reader.stop()
    assert reader.wrong == []
    assert reader.failed == []
    assert reader.reads > 10
    assert db.status()["generation"] == 1, "the views were rebuilt"


def test_a_zombie_that_wakes_up_does_no_harm(db: Database, managers: Managers, name: str) -> None:
    """It hangs in the middle of an epoch, longer than its session; its member goes on elsewhere; then it wakes up."""
    declare(db, name)
    load = Load(db, name, seed=7)
    managers.start("a")
    managers.start("b")
    managers.wait(lambda: len(ring(db)) == 2, "a ring of two")
    db.create_view(f"{name}_by_shop", BY_SHOP.format(table=name))
    db.create_view(f"{name}_whole", WHOLE.format(table=name))
    load.write(300)
    managers.all["a"].kill(signal.SIGSTOP)
    managers.wait(lambda: "a" not in living(db), "the end of the session of a")
    managers.wait(lambda: len(living(db)["b"].members) == 2, "both members at b")
    load.write()
    managers.all["a"].kill(signal.SIGCONT)
    managers.wait(lambda: "a" in living(db), "a to join again")
    load.write()
    load.check()
    assert db.status()["generation"] == 1


def test_without_a_manager_reads_go_on_and_waiting_says_what_to_do(db: Database, managers: Managers, name: str) -> None:
    declare(db, name)
    load = Load(db, name, seed=8)
    load.write()
    managers.start("a")
    managers.wait(lambda: bool(ring(db)), "a ring")
    db.create_view(f"{name}_by_shop", BY_SHOP.format(table=name))
    db.create_view(f"{name}_whole", WHOLE.format(table=name))
    load.check()
    managers.all["a"].kill(signal.SIGTERM)
    assert managers.all["a"].end() == 0
    managers.wait(lambda: not living(db), "the end of the manager")
    before = db.view(f"{name}_whole").read()
    load.write()
    assert db.view(f"{name}_whole").read() == before
    with pytest.raises(StoreError, match="vms manager run"):
        db.view(f"{name}_whole").read("critical")
    with under_way(db, wall_ms() - TTL_MS // 2):
        assert db.view(f"{name}_whole").read() == before
    with under_way(db, wall_ms() - TTL_MS), pytest.raises(ViewTooOld, match="did not end"):
        db.view(f"{name}_whole").read()
    assert db.view(f"{name}_whole").read() == before
    managers.start("a")
    managers.wait(lambda: bool(living(db)), "the manager's return")
    load.check()


def test_a_manager_does_not_start_beside_a_process_for_itself(
    up: DevCluster, root: str, db: Database, tmp_path: Path
) -> None:
    address = f"{up.address}&root={root}"
    said: list[str] = []
    config = configured(
        env={}, flags={"store": address, "id": "a", "home": str(tmp_path / "a"), "session_timeout": 4.0}
    )
    with vms.connect(address, manage=True, folder=tmp_path / "own"):
        with pytest.raises(Conflict, match=r"manage=True is its View Manager \(.*close it there, then start a"):
            Daemon(config, said.append).start()
        assert list(living(db)) == [SINGLE]
    assert said == ["waiting until ZooKeeper has forgotten the last run of the process with manage=True"]
    daemon = Daemon(config, said.append)
    daemon.start()
    try:
        assert list(living(db)) == ["a"]
        with pytest.raises(StoreError, match=r"View Managers run already \(a\)"):
            vms.connect(address, manage=True, folder=tmp_path / "own")
    finally:
        daemon.stop()
