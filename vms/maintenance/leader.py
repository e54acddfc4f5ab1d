"""The leader: issues epochs and commits them (design section 6.1).

It owns nothing: whatever it knows is in the record, or told to it again. A new leader first finishes the
epoch that the last one issued, because every member tells whoever leads that it is done. Two leaders at once
do no harm: every step is a compare-and-set on the one record.
"""

from __future__ import annotations

from dataclasses import dataclass

from vms.maintenance.messages import Done, Message, StateLost, Want
from vms.maintenance.record import Record

#: Epochs are at least this far apart in milliseconds, so that "delete at E-1, put at E" never meets the epoch
#: before (design section 6).
EPOCH_STEP = 2


@dataclass(frozen=True)
class CompareAndSet:
    """Effect: replace the record if it still is `expected`."""

    expected: Record
    record: Record


@dataclass(frozen=True)
class Desired:
    """What the operator wants: the ring and catalog versions that should be in force."""

    ring: int
    catalog: int


class Leader:
    """Decides the next change of the record. `members` of a ring version are looked up by the shell."""

    def __init__(self) -> None:
        self._done: set[tuple[int, int, str]] = set()
        self._wanted = False
        self._lost: set[tuple[int, int]] = set()

    def receive(self, message: Message) -> None:
        """A member's word to the leader; harmless if repeated or late."""
        match message:
            case Done():
                self._done.add((message.generation, message.epoch, message.member))
            case Want():
                self._wanted = True
            case StateLost():
                self._lost.add((message.generation, message.epoch))

    def decide(
        self, record: Record, members: tuple[str, ...], desired: Desired, now: int, due: bool
    ) -> CompareAndSet | None:
        """The next step, if there is one.

        `members`: of the record's ring. `due`: the epoch interval is over, or the operator does not want to
        wait. An epoch is issued when rows wait or something is to change; an idle system issues none.
        """
        if (record.generation, record.epoch) in self._lost:
            return self._rebuild(record, desired, now)
        if not record.committed:
            key = (record.generation, record.epoch)
            if all((*key, m) in self._done for m in members):
                self._done.clear()
                return CompareAndSet(record, record.commit())
            return None
        if not due:
            return None
        epoch = max(now, record.epoch + EPOCH_STEP)
        if record.generation == 0:
            return self._rebuild(record, desired, now)
        if desired.catalog != record.catalog:
            return self._issue(record, record.next(epoch, catalog=desired.catalog))
        if desired.ring != record.ring:
            return self._issue(record, record.next(epoch, ring=desired.ring))
        if self._wanted:
            return self._issue(record, record.next(epoch))
        return None

    def _issue(self, record: Record, after: Record) -> CompareAndSet:
        self._wanted = False
        return CompareAndSet(record, after)

    def _rebuild(self, record: Record, desired: Desired, now: int) -> CompareAndSet:
        """State is lost (or there never was any): a new generation, from the base tables as they are."""
        epoch = max(now, record.epoch + EPOCH_STEP)
        return CompareAndSet(record, record.rebuild(epoch, desired.ring, desired.catalog))
