"""What the views hold after something broke in the middle of a load: exactly what their SQL says."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from databases import check, opened, vms_of_its_own
from kazoo.client import KazooClient
from loader import Loader

from vms.devcluster.cluster import DevCluster
from vms.manager.database import Database
from vms.model.rowkey import encode_keys
from vms.model.types import BIGINT
from vms.ring.membership import SINGLE, Membership
from vms.ring.session import Session
from vms.ring.zookeeper import ZooKeeperCoordination
from vms.store import hbase_commands as commands
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress
from vms.testing.compare import assert_same_rows

KEYS = 600


@pytest.fixture
def address(up: DevCluster, hbase: HBaseStore, name: str) -> Iterator[HBaseAddress]:
    with vms_of_its_own(up, hbase, name) as address:
        yield address


def _key(id_: int) -> bytes:
    return encode_keys([BIGINT], [pa.array([id_], pa.int64())])[0]


def _views(db: Database, name: str) -> list[str]:
    """A table in four regions, another one, and views over them: groups, and a join."""
    db.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, g BIGINT, v BIGINT)")
    for i in range(1, 4):
        db.store.split(name, _key(i * KEYS // 4))  # type: ignore[attr-defined]
    db.sql(f"CREATE TABLE {name}_names (g BIGINT PRIMARY KEY, name VARCHAR)")
    db.sql(f"INSERT INTO {name}_names VALUES " + ", ".join(f"({g}, 'name {g % 4}')" for g in range(7)))
    db.sql(
        f"CREATE MATERIALIZED VIEW {name}_groups AS"
        f" SELECT g, count(*) AS n, sum(v) AS total, max(v) AS high FROM {name} GROUP BY g"
    )
    db.sql(
        f"CREATE MATERIALIZED VIEW {name}_joined AS SELECT name, count(*) AS n, sum(v) AS total"
        f" FROM {name} JOIN {name}_names USING (g) GROUP BY name"
    )
    return [f"{name}_groups", f"{name}_joined"]


def _check(db: Database, name: str, views: list[str], rows: pa.Table) -> None:
    check(db, views[0])
    assert_same_rows(db.scan(name), rows)
    for view in views:
        check(db, view, "any")


def test_a_region_server_dies_while_regions_move_and_split(
    up: DevCluster, hbase: HBaseStore, address: HBaseAddress, name: str, tmp_path: Path
) -> None:
    with opened(address, tmp_path / "vms") as db:
        views = _views(db, name)
        loader = Loader(hbase, db.catalog.table(name), KEYS, 250, seed=1)
        servers = hbase.admin.run(commands.servers())
        for i, region in enumerate(hbase.regions(name)):
            loader.reached(i * 0.1)
            hbase.admin.run(commands.move(region.id, servers[i % 2]))
        loader.reached(0.4)
        hbase.split(name, _key(KEYS // 3))
        loader.reached(0.5)
        up.kill("regionserver-1")
        rows = loader.finish()
        _check(db, name, views, rows)
        up.up()
        _check(db, name, views, rows)


def wait_for(session: Session, condition: Callable[[], bool]) -> None:
    """Until it holds; looked at whenever ZooKeeper tells something."""
    changed = threading.Event()
    session.on_change(changed.set)
    while not condition():
        changed.wait(0.5)
        changed.clear()


def test_the_gateway_restarts_and_the_session_is_lost(
    up: DevCluster, hbase: HBaseStore, address: HBaseAddress, name: str, tmp_path: Path
) -> None:
    with opened(address, tmp_path / "vms") as db:
        views = _views(db, name)
        session = db.backend.session  # type: ignore[attr-defined]
        loader = Loader(hbase, db.catalog.table(name), KEYS, 120, seed=2)
        loader.reached(0.2)
        up.kill("thrift")
        up.start("thrift")
        loader.reached(0.5)
        lost = session.incarnation
        with_its_id = KazooClient(address.zookeeper_hosts, client_id=session.client.client_id)
        with_its_id.start()
        with_its_id.stop()  # the server ends the session, which is ours
        with_its_id.close()
        rows = loader.finish()
        _check(db, name, views, rows)
        assert session.incarnation > lost
        # nobody else starts beside this manager, as it says again that it is there
        wait_for(session, lambda: list(Membership(session).managers()) == [SINGLE])


_MANAGER = """
import sys, vms
with vms.connect(sys.argv[1], manage=True, folder=sys.argv[2]) as db:
    print("up", flush=True)
    sys.stdin.read()
"""


@contextmanager
def _manager(address: HBaseAddress, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A View Manager in a process of its own, killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", _MANAGER, str(address), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def test_the_view_manager_is_killed_twice(
    up: DevCluster, hbase: HBaseStore, address: HBaseAddress, name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "vms"
    with opened(address, folder) as db:
        views, table = _views(db, name), db.catalog.table(name)
    loader = Loader(hbase, table, KEYS, 120, seed=3)
    with closing(Session(address.zookeeper_hosts, address.root)) as session:
        coordination, changed = ZooKeeperCoordination(session), threading.Event()
        session.on_change(changed.set)
        for share in (0.3, 0.6):
            with _manager(address, folder):
                loader.reached(share)
                before = coordination.record().epoch
                while coordination.record().epoch <= before:
                    assert changed.wait(120)
                    changed.clear()
    with opened(address, folder) as db:
        _check(db, name, views, loader.finish())
