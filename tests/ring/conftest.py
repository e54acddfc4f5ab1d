"""A real ZooKeeper for the whole run of a worker, and a path of its own in it for each test."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator

import pytest

from vms.devcluster.zookeeper import DevZooKeeper
from vms.ring.session import Session


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def _zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevZooKeeper]:
    server = DevZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_port())
    server.up()
    yield server
    server.kill()


@pytest.fixture
def zookeeper(_zookeeper: DevZooKeeper) -> DevZooKeeper:
    """It serves, whatever the test before has done to it."""
    _zookeeper.go_on()
    _zookeeper.up()
    return _zookeeper


@pytest.fixture
def session(zookeeper: DevZooKeeper) -> Iterator[Callable[..., Session]]:
    """Makes sessions below one path; all are closed after the test."""
    root, made = f"/test-{uuid.uuid4().hex}", []

    def make(**options: float) -> Session:
        made.append(Session(zookeeper.address, root, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
