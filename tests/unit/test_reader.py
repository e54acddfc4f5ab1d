"""Consistent reads of a view that epochs overtake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from vms.errors import ViewTooOld
from vms.maintenance.record import ReadPoint, Record
from vms.store.base import Cell, Mutation
from vms.testing.memory_store import MemoryStore
from vms.viewtable.layout import FAMILIES, TTL_MS, VERSIONS
from vms.viewtable.reader import TRIES, overdue, read_view


class Clock:
    """A view whose epochs pass while it is read: many, or few while somebody reads unhurried."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.store.create_table("view", FAMILIES)
        self.epochs = self.slow = self.tries = 0

    def point(self) -> tuple[ReadPoint, int]:
        self.epochs += 1 if self.slow else VERSIONS
        self.store.mutate("view", [Mutation(b"row", (Cell(b"v:n", self.epochs, value=b"%d" % self.epochs),))])
        return replace(Record().read, epoch=self.epochs), self.epochs

    def take(self, rows) -> bytes:
        self.tries += 1
        return next(iter(rows))[1][b"v:n"].value

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        self.slow += 1
        yield
        self.slow -= 1


def test_a_read_that_was_overtaken_slows_the_epochs_down():
    clock = Clock()
    value, epoch = read_view(clock.store, clock.take, lambda _: "view", clock.point, clock.unhurried)
    assert (int(value), clock.tries, clock.slow) == (epoch, 2, 0)


def test_one_that_is_overtaken_again_and_again_says_so():
    clock = Clock()
    with pytest.raises(ViewTooOld):
        read_view(clock.store, clock.take, lambda _: "view", clock.point)
    assert clock.tries == TRIES


def test_a_read_during_which_the_generation_was_replaced_is_repeated():
    """The old table may be there again, empty: a leader that did not know yet made it anew."""
    clock = Clock()
    points = [ReadPoint(1, generation, 1) for generation in (1, 2, 2, 2)]
    tables = {1: "view", 2: "view.2"}
    clock.store.create_table("view.2", FAMILIES)
    clock.store.mutate("view.2", [Mutation(b"row", (Cell(b"v:n", 1, value=b"7"),))])
    rows, epoch = read_view(clock.store, len_of, lambda p: tables[p.generation], lambda: (points.pop(0), 1))
    assert (rows, epoch) == (1, 1)


def len_of(rows) -> int:
    return len(list(rows))


def test_only_an_epoch_that_does_not_end_makes_a_read_unsafe():
    """An idle view is read at any age; one whose next epoch has deleted rows long ago is not."""
    idle = Record().next(1_000).commit()
    now = 1_000 + 10 * TTL_MS
    assert not overdue(idle, now)
    begun = idle.next(now - TTL_MS)
    assert overdue(begun, now)
    assert not overdue(begun, now - 3600 * 1000)
    assert not overdue(begun.commit(), now)
    assert not overdue(idle.rebuild(now - TTL_MS, 1, 1), now)  # fills tables that nobody reads yet
