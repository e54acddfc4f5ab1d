"""The key-value store protocol: the part of HBase's data model that VMS stands on.

A table has one or more column families; a row has cells named `family:qualifier`; a cell has versions by
timestamp (milliseconds). Reads resolve versions exactly as HBase does: a put is visible unless a DELETE_ROW
(of its family) or DELETE_COLUMN with an equal or higher timestamp, or a DELETE_VERSION with an equal one,
hides it, whatever the order in which they arrived; of two puts with one timestamp the later to arrive wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from vms.model.changes import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT


class Cell(NamedTuple):
    """One cell of a mutation. `kind` is PUT, DELETE_ROW (column = b"family:"), DELETE_COLUMN or DELETE_VERSION."""

    column: bytes
    ts: int
    kind: int = PUT
    value: bytes = b""


class Mutation(NamedTuple):
    """Cells of one row, applied atomically."""

    row: bytes
    cells: tuple[Cell, ...]


class Version(NamedTuple):
    """A visible value and its timestamp."""

    value: bytes
    ts: int


#: A row as read: column -> newest visible version.
Row = dict[bytes, Version]


class Region(NamedTuple):
    """A key range of a table: start <= row < stop (b"" as stop: no end). Its id is never used again."""

    id: str
    table: str
    start: bytes
    stop: bytes


class Entry(NamedTuple):
    """One entry of the change stream: the mutations of one call that fell into one region, in order."""

    seq: int
    mutations: tuple[Mutation, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """Settings of a column family (design section 6)."""

    versions: int = 1
    min_versions: int = 0
    ttl_ms: int | None = None
    keep_deleted: bool = False


class Snapshot(Protocol):
    """A table, to be read whole.

    `positions` name the regions whose rows are at one instant: what is read is exactly the changes up to there. Where
    there are none (HBase), each row is as it was at some moment between the call and the end of the scan.
    """

    @property
    def positions(self) -> Mapping[str, int]: ...

    def scan(self, start: bytes = b"", stop: bytes = b"") -> Iterator[tuple[bytes, Row]]: ...

    def close(self) -> None: ...


class KVStore(Protocol):
    """What the embedded store and HBase have in common. Safe to use from several threads."""

    def create_table(
        self, name: str, families: Mapping[str, Family], splits: Sequence[bytes] = (), *, stream: bool = False
    ) -> None:
        """Create; raises AlreadyExists. With `stream`, its changes are kept until acknowledged."""

    def drop_table(self, name: str) -> None:
        """Drop it with its data and its stream; raises TableMissing."""

    def tables(self) -> list[str]: ...

    def regions(self, table: str) -> list[Region]:
        """In key order, without gap or overlap."""

    def split(self, table: str, key: bytes) -> None:
        """Split the region that holds `key` there. Two new regions take its place; sequence ids go on above."""

    def mutate(self, table: str, mutations: Sequence[Mutation]) -> dict[str, int]:
        """Apply durably; each row atomically; in order for rows named twice. Returns region -> sequence id.

        HBase tells no sequence ids: then it is empty.
        """

    def get(
        self, table: str, row: bytes, *, columns: Sequence[bytes] | None = None, before: int | None = None
    ) -> Row | None:
        """The newest visible versions with timestamp < `before` (deletes at or above it do not count)."""

    def settle(self, table: str, rows: Sequence[bytes]) -> None:
        """Wait until all that the change stream has told of these rows can be read."""

    def get_many(self, table: str, rows: Sequence[bytes]) -> list[Row | None]:
        """`get` of several rows, in their order."""

    def versions(
        self, table: str, row: bytes, column: bytes, *, before: int | None = None, limit: int = 1 << 30
    ) -> list[Version]:
        """Visible versions of one cell, newest first."""

    def scan(
        self,
        table: str,
        start: bytes = b"",
        stop: bytes = b"",
        *,
        columns: Sequence[bytes] | None = None,
        before: int | None = None,
    ) -> Iterator[tuple[bytes, Row]]:
        """Rows in key order with start <= row < stop (b"" as stop: to the end)."""

    def close(self) -> None: ...


class SnapshotStore(KVStore, Protocol):
    """A store whose tables can be read whole: what a View Manager stands on."""

    def snapshot(self, table: str) -> Snapshot: ...


class MetaStore(Protocol):
    """A few small values beside the tables. Safe to use from several threads and processes."""

    def meta_get(self, key: str) -> bytes | None:
        """A value that `meta_put` or `meta_cas` has kept."""

    def meta_put(self, key: str, value: bytes | None) -> None:
        """Keep a value, whatever is there; None removes it. Durable before it returns."""

    def meta_cas(self, key: str, expected: bytes | None, value: bytes) -> bool:
        """Replace the value if it still is `expected` (None: nothing); durable before it returns."""


class ManagedStore(SnapshotStore, MetaStore, Protocol):
    """What a View Manager stands on."""


class StreamStore(SnapshotStore, Protocol):
    """A store that also keeps its change stream (the embedded store; HBase keeps a WAL instead)."""

    def stream_regions(self) -> list[Region]:
        """Every region with a stream that still holds entries, parents before the daughters of their split."""

    def read_stream(self, region: str, after: int, limit: int) -> list[Entry]:
        """Entries of the region with seq > after, in order, about `limit` mutations at the most."""

    def acknowledge(self, region: str, seq: int) -> None:
        """Entries up to `seq` are needed no more. Durable; the stream of a dropped or split region ends here."""

    def acknowledged(self, region: str) -> int:
        """The last sequence id acknowledged (0: none)."""

    def unacknowledged(self) -> int:
        """How many entries of all streams are not acknowledged."""

    def subscribe(self, notify: Callable[[], None], /) -> Callable[[], None]:
        """Call `notify` after each entry that is added; what it returns ends that."""


__all__ = [
    "DELETE_COLUMN",
    "DELETE_ROW",
    "DELETE_VERSION",
    "PUT",
    "Cell",
    "Entry",
    "Family",
    "KVStore",
    "ManagedStore",
    "MetaStore",
    "Mutation",
    "Region",
    "Row",
    "Snapshot",
    "SnapshotStore",
    "StreamStore",
    "Version",
]
