"""Which versions of a row are visible, and which of its cells may be merged away.

Pure functions over all cells of one row. Arrival order matters at one place only: of two puts to one column
with one timestamp the later wins. `gather` settles that; from then on a row is four sets, and every answer is
a function of them, whatever the order in which puts and deletes came (HBase's rule, vms/store/base.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from vms.store.base import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT, Cell, Family, Row, Version

#: Above every timestamp (0 <= ts < 2**63 - 1, as in HBase): the bound of a read without a bound.
NO_BOUND = (1 << 63) - 1


@dataclass(slots=True)
class History:
    """The cells of one row. `row_deletes` is keyed by family prefix (b"family:"), the others by column."""

    puts: dict[bytes, dict[int, bytes]] = field(default_factory=dict)
    row_deletes: dict[bytes, set[int]] = field(default_factory=dict)
    column_deletes: dict[bytes, set[int]] = field(default_factory=dict)
    version_deletes: dict[bytes, set[int]] = field(default_factory=dict)

    def tombstones(self, column: bytes) -> set[int]:
        """Timestamps at and below which puts to `column` are hidden."""
        return self.row_deletes.get(family_of(column), set()) | self.column_deletes.get(column, set())

    def timestamps(self, column: bytes) -> list[int]:
        """Puts to `column` that no one-version delete names, newest first.

        A put with such a delete at its own timestamp is seen by no read, whatever its bound.
        """
        gone = self.version_deletes.get(column, ())
        return sorted((ts for ts in self.puts.get(column, ()) if ts not in gone), reverse=True)


def family_of(column: bytes) -> bytes:
    """The family prefix of a column, with its colon."""
    return column[: column.index(b":") + 1]


def gather(cells: Iterable[Cell]) -> History:
    """The history of a row from its cells in the order of their arrival, oldest first."""
    history = History()
    deletes = {
        DELETE_ROW: history.row_deletes,
        DELETE_COLUMN: history.column_deletes,
        DELETE_VERSION: history.version_deletes,
    }
    for column, ts, kind, value in cells:
        if kind == PUT:
            history.puts.setdefault(column, {})[ts] = value
        else:
            deletes[kind].setdefault(column, set()).add(ts)
    return history


def visible(history: History, column: bytes, bound: int = NO_BOUND) -> Iterator[Version]:
    """Visible versions of one column with ts < `bound`, newest first. Deletes at or above it do not count."""
    mask = max((t for t in history.tombstones(column) if t < bound), default=-1)
    values = history.puts.get(column, {})
    for ts in history.timestamps(column):
        if ts <= mask:
            return
        if ts < bound:
            yield Version(values[ts], ts)


def newest(history: History, bound: int = NO_BOUND, columns: Collection[bytes] | None = None) -> Row:
    """The newest visible version of every column, or of those asked for. Empty: the row does not exist."""
    row: Row = {}
    for column in history.puts if columns is None else columns:
        version = next(visible(history, column, bound), None)
        if version is not None:
            row[column] = version
    return row


def expire(history: History, families: Mapping[bytes, Family], now_ms: int) -> None:
    """Take out the puts whose time to live is over, except the newest `min_versions` of each column."""
    for column, values in history.puts.items():
        family = families[family_of(column)]
        if family.ttl_ms is not None:
            keep = _unexpired(history.timestamps(column), family, now_ms)
            history.puts[column] = {ts: values[ts] for ts in keep}


def merge(history: History, families: Mapping[bytes, Family], now_ms: int) -> tuple[Cell, ...]:
    """The least cells that stand for the row from now on; none when nothing of it is left.

    Guarantees, for the reads that follow and whatever is written later:
    - A read without a bound never changes, except that a DELETE_VERSION which arrives later uncovers nothing
      older than the newest `versions` puts (as in HBase, where a flush drops them).
    - With `keep_deleted` a read with a bound is right as long as it needs none but the newest `versions` puts
      and the newest `versions` deletes, and is not older than the ttl. Without `keep_deleted` what a delete
      hides is gone for reads below the delete too.
    - A delete goes on hiding puts that arrive late with an older timestamp: the newest tombstone stays
      (HBase forgets it at a major compaction). It goes with the ttl only; nobody writes with a timestamp
      that old (design section 6), and so a deleted row vanishes entirely.
    """
    cells: list[Cell] = []
    kept_by_family: dict[bytes, set[int]] = {}
    for column in history.puts.keys() | history.column_deletes.keys() | history.version_deletes.keys():
        prefix = family_of(column)
        family = families[prefix]
        horizon = _horizon(family, now_ms)
        tombstones = history.tombstones(column)
        final = max((t for t in tombstones if not family.keep_deleted or t < horizon), default=-1)

        kept = [ts for ts in history.timestamps(column) if ts > final][: family.versions]
        kept = _unexpired(kept, family, now_ms)
        kept_by_family.setdefault(prefix, set()).update(kept)
        values = history.puts.get(column, {})
        cells.extend(Cell(column, ts, PUT, values[ts]) for ts in kept)

        stay = _tombstones(history.column_deletes.get(column, set()), kept, family, horizon)
        row_newest = max(history.row_deletes.get(prefix, ()), default=-1)
        cells.extend(Cell(column, t, DELETE_COLUMN) for t in stay if family.keep_deleted or t > row_newest)
        for t in history.version_deletes.get(column, ()):
            if t >= horizon and t > final:
                cells.append(Cell(column, t, DELETE_VERSION))
    for prefix, tombstones in history.row_deletes.items():
        family = families[prefix]
        kept_here = kept_by_family.get(prefix, set())
        stay = _tombstones(tombstones, kept_here, family, _horizon(family, now_ms))
        cells.extend(Cell(prefix, t, DELETE_ROW) for t in stay)
    return tuple(sorted(cells))


def _horizon(family: Family, now_ms: int) -> int:
    """The oldest timestamp that is still within the ttl."""
    return -1 if family.ttl_ms is None else now_ms - family.ttl_ms


def _unexpired(timestamps: list[int], family: Family, now_ms: int) -> list[int]:
    """Of timestamps, newest first, those within the ttl or among the newest `min_versions`."""
    horizon = _horizon(family, now_ms)
    return [ts for rank, ts in enumerate(timestamps) if ts >= horizon or rank < family.min_versions]


def _tombstones(found: set[int], kept: Collection[int], family: Family, horizon: int) -> set[int]:
    """The tombstones that stay: the newest ones, and for each kept put the first that hides it.

    For a put at p and a bound B the put is hidden if any tombstone is in [p, B), so the lowest at or above p
    decides for every B.
    """
    live = sorted(t for t in found if t >= horizon)
    if not family.keep_deleted:
        return set(live[-1:])
    stay = set(live[-family.versions :])
    for put in kept:
        first = next((t for t in live if t >= put), None)
        if first is not None:
            stay.add(first)
    return stay
