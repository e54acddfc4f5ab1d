"""A source that delivers what a test tells it to, repeats included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Event, Lock

from vms.stream.base import Lag, SourceBatch


class ScriptedSource:
    """`Source` over batches given up front or appended; each is delivered as it was given.

    `parents` names, for a daughter of a split, the region it came from. `duplicate` breaks the order on
    purpose, as a hung sender of HBase does that wakes up and delivers old entries behind newer ones (design
    section 9): owners have to drop what comes of it.
    """

    def __init__(self, batches: Iterable[SourceBatch] = (), parents: Mapping[str, str] | None = None) -> None:
        self._lock = Lock()
        self._parents = dict(parents or {})
        self._waiting: dict[str, list[SourceBatch]] = {}
        self._outstanding: set[str] = set()
        self._repeats: list[SourceBatch] = []
        self._arrived = Event()
        for batch in batches:
            self.append(batch)

    def append(self, batch: SourceBatch) -> None:
        """Add a batch to the end of its region."""
        with self._lock:
            queue = self._waiting.setdefault(batch.region, [])
            if queue and batch.first <= queue[-1].last:
                raise ValueError(f"region {batch.region}: {batch.first} does not follow {queue[-1].last}")
            queue.append(batch)
            self._arrived.set()

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
            return batches

    def _has_unfinished_parent(self, region: str) -> bool:
        parent = self._parents.get(region)
        return parent is not None and (bool(self._waiting.get(parent)) or self._has_unfinished_parent(parent))

    def acknowledge(self, batch: SourceBatch) -> None:
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

    def lag(self) -> Lag:
        with self._lock:
            return Lag(sum(len(batch.entries) for queue in self._waiting.values() for batch in queue))

    def wait(self, timeout: float | None = None) -> bool:
        return self._arrived.wait(timeout)

    def close(self) -> None:
        self.reset()
