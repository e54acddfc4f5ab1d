"""Record, rings and catalogs in a real ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from vms.devcluster.zookeeper import DevZooKeeper
from vms.errors import Conflict, StoreUnavailable
from vms.maintenance.record import Record
from vms.manager.ddl import parse_create_table
from vms.model.catalog import Catalog
from vms.ring.session import Session, State
from vms.ring.zookeeper import ZooKeeperCoordination

Sessions = Callable[..., Session]
ISSUED = Record().rebuild(1000, 1, 0)


def wait_for(session: Session, condition: Callable[[], bool]) -> None:
    """Look again whenever the session has news; the test's own time limit ends it."""
    news = threading.Event()
    session.on_change(news.set)
    while not condition():
        news.wait(0.2)
        news.clear()


def test_a_record_is_replaced_only_by_who_knows_it(session: Sessions) -> None:
    one, other = ZooKeeperCoordination(session()), ZooKeeperCoordination(session())
    assert one.record() == other.record() == Record()
    assert one.compare_and_set(Record(), ISSUED)
    assert one.record() == ISSUED
    assert not other.compare_and_set(Record(), ISSUED.commit())
    wait_for(other.session, lambda: other.record() == ISSUED)
    assert other.compare_and_set(ISSUED, ISSUED.commit())
    wait_for(one.session, lambda: one.record() == ISSUED.commit())


def test_of_many_that_change_the_record_at_once_one_wins(session: Sessions) -> None:
    coordinations = [ZooKeeperCoordination(session()) for _ in range(4)]
    records = [Record().rebuild(1000 + i, 1, 0) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(lambda c, r: c.compare_and_set(Record(), r), coordinations, records))
    assert won.count(True) == 1
    fresh = ZooKeeperCoordination(session())
    assert fresh.record() == records[won.index(True)]


def test_rings_have_versions_that_everybody_reads_alike(session: Sessions) -> None:
    one, other = ZooKeeperCoordination(session()), ZooKeeperCoordination(session())
    ring = one.add_ring(["b", "a"])
    wait_for(other.session, lambda: other.newest_ring() == ring.version)
    assert other.ring(1).members == ("a", "b")
    assert (other.ring(1).owners == ring.owners).all()


def test_members_that_come_at_once_are_all_in_the_ring(session: Sessions) -> None:
    coordinations = [ZooKeeperCoordination(session()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: coordinations[i].change_members(add=[f"m{i}"]), range(4)))
    fresh = ZooKeeperCoordination(session())
    assert fresh.ring(fresh.newest_ring()).members == ("m0", "m1", "m2", "m3")
    assert fresh.change_members(remove=["m0"]).members == ("m1", "m2", "m3")
    assert fresh.change_members(remove=["m1", "m2", "m3"]) is None


def test_two_operators_at_once_get_a_conflict_and_no_lost_change(session: Sessions) -> None:
    one, other = ZooKeeperCoordination(session()), ZooKeeperCoordination(session())
    before_one, before_other = one.catalog(), other.catalog()
    table = parse_create_table("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
    one.change_catalog(before_one, before_one.with_table(table))
    with pytest.raises(Conflict, match="changed by somebody else"):
        other.change_catalog(before_other, before_other.with_view("v", "SELECT 1"))
    wait_for(other.session, lambda: other.catalog().version == 1)
    other.change_catalog(other.catalog(), other.catalog().with_view("v", "SELECT k FROM t"))
    wait_for(one.session, lambda: one.catalog().version == 2)
    assert set(one.catalog().tables) == {"t"}
    assert set(one.catalog().views) == {"v"}


def test_a_catalog_larger_than_a_node_is_kept_in_parts(session: Sessions) -> None:
    import random

    digits = random.Random(1)
    views = {}
    catalog = Catalog()
    for i in range(40):
        catalog = catalog.with_view(f"v{i}", f"SELECT '{digits.randbytes(40_000).hex()}' FROM t")
        views[f"v{i}"] = catalog.views[f"v{i}"].sql
    coordination = ZooKeeperCoordination(session())
    coordination.change_catalog(Catalog(), catalog)
    read = ZooKeeperCoordination(session()).catalog()
    assert read.version == 40
    assert {n: v.sql for n, v in read.views.items()} == views


def test_while_zookeeper_is_away_what_was_read_stays_readable(session: Sessions, zookeeper: DevZooKeeper) -> None:
    coordination = ZooKeeperCoordination(session())
    coordination.compare_and_set(Record(), ISSUED)
    assert coordination.record() == ISSUED
    zookeeper.kill()
    wait_for(coordination.session, lambda: coordination.session.state is not State.CONNECTED)
    assert coordination.record() == ISSUED
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        coordination.compare_and_set(ISSUED, ISSUED.commit())
    zookeeper.up()
    wait_for(coordination.session, lambda: coordination.session.state is State.CONNECTED)
    assert coordination.compare_and_set(ISSUED, ISSUED.commit())


def test_a_zookeeper_that_is_not_there_is_named() -> None:
    with pytest.raises(StoreUnavailable, match="does not answer"):
        Session("127.0.0.1:1", seconds=0.2)
