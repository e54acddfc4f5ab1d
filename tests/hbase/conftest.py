"""One real HBase for the whole test run.

Started when the first test asks for it, shared by the workers of pytest-xdist, ended with the last of them.
`VMS_TEST_HBASE=FOLDER` uses the development cluster of that folder instead, and leaves it running.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from vms.devcluster.cluster import DevCluster, Ports
from vms.devcluster.process import port_in_use
from vms.store.hbase import HBaseStore
from vms.store.java import locked

REGION_SERVERS = 2


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """A cluster that is up, with two region servers."""
    given = os.environ.get("VMS_TEST_HBASE")
    if given:
        cluster = DevCluster(given)
        cluster.up(REGION_SERVERS)
        yield cluster
        return
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    cluster = DevCluster(root / "hbase")
    users = root / "hbase-users"
    with locked(root / "hbase.lock"):
        _count(users, 1)
        cluster.up(REGION_SERVERS, None if cluster.exists else _free_port_base())
    yield cluster
    with locked(root / "hbase.lock"):
        if _count(users, -1) == 0:
            cluster.down(now=True, delete=True)


@pytest.fixture
def up(cluster: DevCluster) -> DevCluster:
    """The cluster with everything running, whatever the test before has killed."""
    cluster.up()
    return cluster


@pytest.fixture
def name() -> str:
    """A table name that no other test uses."""
    return f"t_{uuid.uuid4().hex[:12]}"


def _count(users: Path, change: int) -> int:
    count = (int(users.read_text()) if users.exists() else 0) + change
    users.write_text(str(count))
    return count


def _free_port_base() -> int:
    for number in range(200):
        base = 23_000 + 40 * ((os.getpid() + number) % 200)
        ports = Ports(base)
        wanted = [ports.zookeeper, ports.thrift, ports.master, *(ports.region_server(n) for n in range(1, 5))]
        if not any(map(port_in_use, wanted)):
            return base
    raise RuntimeError("no free ports for HBase")


@pytest.fixture(scope="session")
def hbase(cluster: DevCluster) -> Iterator[HBaseStore]:
    """The store of the cluster, with one Java helper for the whole run."""
    store = HBaseStore(cluster.address)
    yield store
    store.close()
