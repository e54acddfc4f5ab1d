"""Rows that are to be read from the store again, as a part of the change stream.

A writer to HBase learns no place of its write in the stream, so it cannot say what a reader has to wait for. But it
knows the rows, and that HBase has them. So these rows enter the next epoch as changes that the stream alone cannot
tell (`vms.maintenance.operations.delta_view`): their owners read them from the store, after the write, and what they
read is part of the cut. As soon as that cut is committed, every read holds the write, or what came after it; and what
the stream still brings of these rows from before is recognised by its timestamp and changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence

from vms.model.table import BaseTable
from vms.store.base import DELETE_VERSION, Cell, Entry, Mutation
from vms.stream.base import Lag, Source, SourceBatch, StreamBatch


class Rereads:
    """A `Source` around another one, with rows to read again among its batches.

    They come as regions of their own, one for each table, with a batch under way at a time like any other; their
    sequence ids are nanoseconds, so that they rise over restarts as those of a region do.
    """

    def __init__(self, source: Source, name: str = "") -> None:
        """`name`: of the member or process, because two must not share a region."""
        self._source, self._name = source, name
        self._lock = threading.Lock()
        self._last = 0
        self._waiting: dict[str, list[Entry]] = {}
        self._outstanding: dict[str, SourceBatch] = {}

    def ask(self, table: BaseTable, keys: Iterable[bytes]) -> tuple[str, int]:
        """Read these rows for an epoch that is not issued yet; returns what a token says of them."""
        cell = (Cell(table.marker, 0, DELETE_VERSION),)
        mutations = tuple(Mutation(key, cell) for key in keys)
        with self._lock:
            self._last = max(self._last + 1, time.time_ns())
            self._waiting.setdefault(table.name, []).append(Entry(self._last, mutations))
            seq = self._last
        self._source.wake()
        return self._region(table.name), seq

    def _region(self, table: str) -> str:
        return f"reread/{table}/{self._name}"

    def poll(self, limit: int) -> Sequence[StreamBatch]:
        batches = list(self._source.poll(limit))
        with self._lock:
            for table in [t for t in self._waiting if self._region(t) not in self._outstanding]:
                entries, region = self._waiting.pop(table), self._region(table)
                # nothing changes here, so nothing lacks an image
                batch = SourceBatch(table, region, entries[0].seq, entries[-1].seq, tuple(entries), has_images=True)
                self._outstanding[region] = batch
                batches.append(batch)
        return batches

    def acknowledge(self, batch: StreamBatch) -> None:
        with self._lock:
            if batch.region in self._outstanding:
                if self._outstanding[batch.region] is batch:
                    del self._outstanding[batch.region]
                if self._waiting:
                    self._source.wake()
                return
        self._source.acknowledge(batch)

    def reset(self) -> None:
        with self._lock:
            for batch in self._outstanding.values():
                self._waiting[batch.table] = [*batch.entries, *self._waiting.get(batch.table, [])]
            self._outstanding.clear()
        self._source.reset()

    def unread(self, regions: Collection[str]) -> Collection[str]:
        return self._source.unread(regions)

    def lag(self) -> Lag:
        return self._source.lag()

    def wait(self, timeout: float | None = None) -> bool:
        return self._source.wait(timeout)

    def wake(self) -> None:
        self._source.wake()

    def close(self) -> None:
        self._source.close()
