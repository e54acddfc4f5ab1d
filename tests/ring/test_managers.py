"""Several managers with real ZooKeeper and gRPC between them: exact through deaths, joins and drains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from vms.ring.session import Session
from vms.store.base import Family
from vms.testing.managers import Managers

Make = Callable[..., Managers]


@pytest.fixture
def managers(tmp_path: Path, session: Callable[..., Session]) -> Iterator[Make]:
    made = []

    def make(**options: bool) -> Managers:
        made.append(Managers(tmp_path, session, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def some(random: Random, count: int) -> dict[int, tuple[int, int] | None]:
    """Puts and deletes among few ids, so that rows change and go."""
    return {
        random.randrange(200): None if random.random() < 0.2 else (random.randrange(20), random.randrange(100))
        for _ in range(count)
    }


def in_ring(all_: Managers) -> set[str]:
    record = all_.coordination.record()
    return set(all_.coordination.ring(record.ring).members) if record.ring else set()


def test_three_managers_keep_views_exact(managers: Make) -> None:
    all_, random = managers(), Random(1)
    for name in ("a", "b", "c"):
        all_.start(name)
    all_.wait(lambda: in_ring(all_) == {"a-1", "b-1", "c-1"})
    for _ in range(10):
        all_.write(some(random, 60))
    all_.check()
    sent = {name: sum(p.sent for p in r.neighbours.links.peers.values()) for name, r in all_.running.items()}
    assert all(sent.values()), "nothing went over the links"


def test_a_table_of_somebody_else_that_looks_like_a_view_table_is_left_alone(managers: Make) -> None:
    all_ = managers()
    theirs = ["by_shop.1.1", "reports.1.1", "whole.99999.0"]
    for table in theirs:
        all_.store.create_table(table, {"d": Family()})
    all_.start("a")
    all_.write(some(Random(5), 50))
    all_.check()
    before = all_.coordination.catalog()
    all_.coordination.change_catalog(before, before.without_view("pairs", []))
    all_.wait(lambda: not [t for t in all_.store.tables() if t.startswith("pairs.")])
    assert set(theirs) <= set(all_.store.tables())


def test_a_member_of_a_dead_manager_goes_on_at_another_that_reaches_its_log(managers: Make) -> None:
    all_, random = managers(), Random(2)
    for name in ("a", "b", "c"):
        all_.start(name)
    all_.wait(lambda: len(in_ring(all_)) == 3)
    all_.write(some(random, 100))
    for victim in ("a", "b"):
        all_.write(some(random, 60))
        all_.kill(victim)
        all_.write(some(random, 60))
        all_.check()
    assert all_.running["c"].members.ids == {"a-1", "b-1", "c-1"}
    assert all_.coordination.record().generation == 1
    all_.start("d", room=2)
    all_.wait(lambda: len(all_.running["d"].members) == 2)
    all_.write(some(random, 60))
    all_.check()
    assert len(in_ring(all_)) == 3


def test_a_manager_joins_and_one_is_drained_while_changes_come(managers: Make) -> None:
    all_, random = managers(), Random(3)
    all_.start("a")
    all_.write(some(random, 100))
    all_.check()
    all_.start("b", folder="log-of-b")
    for _ in range(5):
        all_.write(some(random, 40))
    all_.wait(lambda: in_ring(all_) == {"a-1", "b-1"})
    all_.check()
    all_.running["a"].neighbours.draining = True
    all_.running["a"].look()
    for _ in range(5):
        all_.write(some(random, 40))
    all_.wait(lambda: in_ring(all_) == {"b-1"} and not all_.running["a"].members.ids)
    all_.running.pop("a").stop()
    all_.write(some(random, 40))
    all_.check()
    assert all_.coordination.record().generation == 1


@pytest.mark.parametrize("log", [True, False], ids=["log out of reach", "no log"])
def test_state_that_is_lost_is_rebuilt_while_reads_go_on(managers: Make, log: bool) -> None:
    all_, random = managers(log=log), Random(4)
    all_.start("a", folder="log-of-a", rehost_timeout=1.0)
    all_.start("b", folder="log-of-b", rehost_timeout=1.0)
    all_.wait(lambda: len(in_ring(all_)) == 2)
    all_.write(some(random, 100))
    all_.check()
    before = all_.expected("whole")
    all_.kill("a")
    assert all_.read("whole")[0].equals(before.cast(all_.read("whole")[0].schema))
    all_.wait(lambda: all_.coordination.record().read.generation == 2)
    all_.write(some(random, 40))
    all_.check()
    assert in_ring(all_) == {"b-1"}
