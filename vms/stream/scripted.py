"""A source that delivers what a test tells it to, repeats and crashes included."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from threading import Event, Lock

import pyarrow as pa

from vms.model.table import BaseTable
from vms.store.base import Entry
from vms.stream.base import Lag, SourceBatch, StreamBatch
from vms.stream.encode import RowEncoder

#: Timestamps of a script's lines: above those of any clock, so that a line is newer than every scan, and this
#: far apart, because a whole row takes two.
_FIRST, _STEP = 1 << 42, 2


class Crash(BaseException):
    """A mark in the stream: whoever polls this far dies here. Nothing in the code under test catches it."""


class ScriptedSource:
    """`Source` over batches given up front or appended; each is delivered as it was given.

    A `Crash` among them is raised by `poll`, once, when all batches before it have been delivered, be they
    acknowledged or not; nothing behind it is delivered before that. `parents` names, for a daughter of a
    split, the region it came from. `duplicate` breaks the order on purpose, as a hung sender of HBase does that
    wakes up and delivers old entries behind newer ones (design section 9): owners have to drop what comes of it.
    """

    def __init__(self, batches: Iterable[SourceBatch | Crash] = (), parents: Mapping[str, str] | None = None) -> None:
        self._lock = Lock()
        self._parents = dict(parents or {})
        #: Of each region, in order; behind a crash, what waits until it has happened.
        self._waiting: dict[str, list[SourceBatch]] = {}
        self._behind: list[SourceBatch | Crash] = []
        self._outstanding: set[str] = set()
        self._repeats: list[SourceBatch] = []
        self._arrived = Event()
        for batch in batches:
            self.append(batch)

    def append(self, batch: SourceBatch | Crash) -> None:
        """Add to the end: of the batch's region, or of everything."""
        with self._lock:
            if self._behind or isinstance(batch, Crash):
                self._behind.append(batch)
            else:
                self._add(batch)
            self._arrived.set()

    def _add(self, batch: SourceBatch) -> None:
        queue = self._waiting.setdefault(batch.region, [])
        if queue and batch.first <= queue[-1].last:
            raise ValueError(f"region {batch.region}: {batch.first} does not follow {queue[-1].last}")
        queue.append(batch)

    def duplicate(self, batch: SourceBatch) -> None:
        """Deliver this batch once more with the next poll, whatever was delivered or acknowledged before."""
        with self._lock:
            self._repeats.append(batch)
            self._arrived.set()

    def poll(self, limit: int) -> list[SourceBatch]:
        with self._lock:
            self._arrived.clear()
            batches, self._repeats = self._repeats, []
            for region, queue in self._waiting.items():
                if not queue or region in self._outstanding or self._has_unfinished_parent(region):
                    continue
                if limit <= 0:
                    self._arrived.set()
                    break
                batches.append(queue[0])
                self._outstanding.add(region)
                limit -= queue[0].mutations
            if not batches and all(self._is_delivered(queue) for queue in self._waiting.values()):
                self._crash()
            return batches

    def _is_delivered(self, queue: list[SourceBatch]) -> bool:
        return not queue or (len(queue) == 1 and queue[0].region in self._outstanding)

    def _crash(self) -> None:
        """Raise the mark that was reached, if there is one; what lies behind it comes into reach."""
        if not self._behind:
            return
        mark, *behind = self._behind
        self._behind = []
        for one in behind:
            if self._behind or isinstance(one, Crash):
                self._behind.append(one)
            else:
                self._add(one)
        assert isinstance(mark, Crash)
        raise mark

    def _has_unfinished_parent(self, region: str) -> bool:
        parent = self._parents.get(region)
        return parent is not None and (bool(self._waiting.get(parent)) or self._has_unfinished_parent(parent))

    def acknowledge(self, batch: StreamBatch) -> None:
        with self._lock:
            queue = self._waiting.get(batch.region, [])
            while queue and queue[0].last <= batch.last:
                queue.pop(0)
                self._outstanding.discard(batch.region)
            self._arrived.set()

    def reset(self) -> None:
        with self._lock:
            self._outstanding.clear()
            self._arrived.set()

    def unread(self, regions: Collection[str]) -> Collection[str]:
        with self._lock:
            return {region for region, queue in self._waiting.items() if queue}

    def lag(self) -> Lag:
        with self._lock:
            return Lag(sum(len(batch.entries) for queue in self._waiting.values() for batch in queue))

    def wait(self, timeout: float | None = None) -> bool:
        return self._arrived.wait(timeout)

    def wake(self) -> None:
        self._arrived.set()

    def close(self) -> None:
        self.reset()


def read_script(table: BaseTable, text: str) -> list[SourceBatch | Crash]:
    """A change stream written as a small table, one entry a line, one batch a line:

        region  seq  change  k   v
        r1      1    put     1   10
        r1      2    part    1   .
        crash
        r1      3    delete  1   .

    `put` writes a whole row, `part` the columns that are not `.`, `delete` needs the key alone; `null` is NULL.
    Later lines have higher timestamps.
    """
    heading, *lines = [line.split() for line in text.strip().splitlines() if line.strip()]
    assert heading[:3] == ["region", "seq", "change"], heading
    found: list[SourceBatch | Crash] = []
    for number, line in enumerate(lines, start=1):
        if line == ["crash"]:
            found.append(Crash(f"line {number}"))
            continue
        region, seq, change, *values = line
        given = {c: None if v == "null" else v for c, v in zip(heading[3:], values) if v != "."}
        columns = {c: pa.array([v], pa.string()).cast(table.by_name[c].type.arrow) for c, v in given.items()}
        rows, encoder = pa.table(columns), RowEncoder(table)
        if change == "delete":
            mutations = encoder.deletes(rows.select(list(table.key)), _FIRST + number * _STEP)
        else:
            mutations = encoder.puts(rows, _FIRST + number * _STEP, whole=change == "put")
        entry = Entry(int(seq), tuple(mutations))
        found.append(SourceBatch(table.name, region, entry.seq, entry.seq, (entry,)))
    return found
