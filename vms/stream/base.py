"""Where changes enter: the source protocol (design section 9).

Delivery, for every source:
- At least once: an entry is delivered until the batch that holds it is acknowledged, through crashes of
  either side. Owners drop the repeats by their watermarks.
- In order per region: a region has at most one batch outstanding (delivered, not yet acknowledged), so its
  entries cannot overtake each other. The daughters of a split follow only when the parent is acknowledged to
  its end, so the changes of a row stay in order through splits too.
- Nothing is said about the order between regions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from vms.store.base import Entry, Region
from vms.stream.decode import DeadLetter, RowDecoder


class StreamBatch(Protocol):
    """What a source delivers: entries of one region in stream order, with the sequence ids of its ends."""

    @property
    def table(self) -> str: ...

    @property
    def region(self) -> str: ...

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...

    @property
    def mutations(self) -> int:
        """About how many rows it changes."""

    @property
    def gap(self) -> str | None:
        """What happened to the table here that the stream does not tell; None: it tells all.

        Views over the table are not right from here on, until they are made anew.
        """

    @property
    def has_images(self) -> bool:
        """Whether every change carries the row before and after it."""

    def decode(self, decoder: RowDecoder) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        """Its source rows, and what could not be decoded."""


class SourceBatch(NamedTuple):
    """A `StreamBatch` of plain mutations."""

    table: str
    region: str
    first: int
    last: int
    entries: tuple[Entry, ...]
    gap: str | None = None
    has_images: bool = False

    @staticmethod
    def of(region: Region, entries: list[Entry]) -> SourceBatch:
        return SourceBatch(region.table, region.id, entries[0].seq, entries[-1].seq, tuple(entries))

    @property
    def mutations(self) -> int:
        return sum(len(entry.mutations) for entry in self.entries)

    def decode(self, decoder: RowDecoder) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        return decoder.decode([(e.seq, m) for e in self.entries for m in e.mutations])


class Lag(NamedTuple):
    """Entries that are not acknowledged; their bytes, and the age of the oldest, where that is known."""

    entries: int
    oldest_ms: int | None = None
    bytes: int | None = None


class Source(Protocol):
    """Next batches, acknowledge. Safe to use from several threads."""

    def poll(self, limit: int) -> Sequence[StreamBatch]:
        """Batches of regions that have none outstanding, about `limit` mutations together. Does not block.

        A batch has at least one entry, and an entry is never cut, so one large entry may exceed the limit.
        """

    def acknowledge(self, batch: StreamBatch) -> None:
        """The batch is durable with the owners of its rows: it is not delivered again, also after a crash.

        The source may forget its entries for good. Acknowledging before that loses changes.
        """

    def reset(self) -> None:
        """Forget what is outstanding: everything that is not acknowledged is delivered again."""

    def unread(self, regions: Collection[str]) -> Collection[str]:
        """Those of these regions whose stream may still bring something of what was written before the call.

        A region that is not among them was acknowledged to its end, or its table was dropped.
        """

    def lag(self) -> Lag: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Block until `poll` may have something to give; False when `timeout` seconds passed first."""

    def wake(self) -> None:
        """Let a thread that waits go on."""

    def close(self) -> None:
        """Let go of the stream; what is outstanding is delivered again to whoever opens it next."""
