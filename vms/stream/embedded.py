"""The change stream of the embedded store as a source."""

from __future__ import annotations

from collections.abc import Collection
from threading import Event, Lock

from vms.store.base import Region, StreamStore
from vms.stream.base import Lag, SourceBatch, StreamBatch


class EmbeddedSource:
    """`Source` over every stream of one store. One at a time: two would deliver everything twice."""

    def __init__(self, store: StreamStore) -> None:
        self._store = store
        self._lock = Lock()
        self._outstanding: dict[str, SourceBatch] = {}
        self._turn = 0
        self._arrived = Event()
        self._arrived.set()
        self._unsubscribe = store.subscribe(self._arrived.set)

    def poll(self, limit: int) -> list[SourceBatch]:
        """Regions take turns at being first, so that a busy one does not starve the others."""
        with self._lock:
            self._arrived.clear()
            ready = self._ready()
            self._turn += 1
            start = self._turn % len(ready) if ready else 0
            batches: list[SourceBatch] = []
            for region in ready[start:] + ready[:start]:
                if limit <= 0:
                    self._arrived.set()
                    break
                entries = self._store.read_stream(region.id, self._store.acknowledged(region.id), limit)
                if entries:
                    batch = SourceBatch.of(region, entries)
                    self._outstanding[region.id] = batch
                    batches.append(batch)
                    limit -= batch.mutations
            return batches

    def _ready(self) -> list[Region]:
        """Regions with entries to deliver. One that overlaps an earlier one is a daughter of its split."""
        ready: list[Region] = []
        unfinished: list[Region] = []
        for region in self._store.stream_regions():
            if region.id not in self._outstanding and not any(_overlap(region, one) for one in unfinished):
                ready.append(region)
            unfinished.append(region)
        return ready

    def acknowledge(self, batch: StreamBatch) -> None:
        with self._lock:
            self._store.acknowledge(batch.region, batch.last)
            outstanding = self._outstanding.get(batch.region)
            if outstanding is not None and outstanding.last <= batch.last:
                del self._outstanding[batch.region]
            self._arrived.set()

    def reset(self) -> None:
        with self._lock:
            self._outstanding.clear()
            self._arrived.set()

    def unread(self, regions: Collection[str]) -> Collection[str]:
        return {region.id for region in self._store.stream_regions()}

    def lag(self) -> Lag:
        return Lag(self._store.unacknowledged())

    def wait(self, timeout: float | None = None) -> bool:
        return self._arrived.wait(timeout)

    def wake(self) -> None:
        self._arrived.set()

    def close(self) -> None:
        self._unsubscribe()
        self.reset()


def _overlap(one: Region, other: Region) -> bool:
    """Whether two regions of one table share a row."""
    return (
        one.table == other.table
        and (not other.stop or one.start < other.stop)
        and (not one.stop or other.start < one.stop)
    )
