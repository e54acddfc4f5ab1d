"""The DeltaView: the last known row of each base record, so that a change becomes -old +new (thesis 4.4).

HBase rows are schemaless and changes may be partial, old or deletes of one cell (design section 9). What the
stream alone decides is decided here, by HBase's rule of (timestamp, type, arrival); every other row is named
by `unresolved` and must be read from the store again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vms.errors import CorruptState, ProtocolViolation
from vms.kernels.hashing import slot_of
from vms.kernels.keys import MIN_ENTRIES, KeyIndex, fit, kernel_array, key_width, key_words, words_to_columns
from vms.kernels.rows import BAD, DELETE_TS, PRESENT, TS, VALUES, apply_changes, changed_rows, start_rows, undecided
from vms.model.arrow import from_column, to_column
from vms.model.changes import DELETE_ROW, Bool, Changes, Column, Int64, RowChanges
from vms.model.table import BaseTable
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType


class DeltaView:
    """The rows of one table in the slots that a member owns: key columns, then the value columns read.

    Use: `unresolved(changes)`, read those rows from the store, `step(changes, reread)`. What `step` and
    `replace` emit holds no row twice and no zero weight, and sums up to `contents`: every row of the table as
    a reader of the store would see it, except rows with a cell that could not be decoded. Keys hold no NULL.

    A deleted row leaves a tombstone, so that a late put below the delete is recognised. Tombstones beyond
    `tombstone_share` of the live rows are forgotten, oldest first; `forgotten_ts` is the highest timestamp
    among them, and a row that is not known counts as deleted at it. So memory follows the live rows, and
    forgetting costs a read of the store at worst, never a wrong row.
    """

    #: Tombstones kept for each live row. Not higher, or deletes at constant live size would double the
    #: memory; not lower, or every few deletes would search all rows for what to forget.
    tombstone_share = 0.25
    #: Tombstones always kept. Not lower, or small tables would re-read rows for nothing.
    min_tombstones = 1024

    def __init__(self, table: BaseTable, columns: Sequence[str], pool: TextPool) -> None:
        self.table, self.columns, self._pool = table, tuple(columns), pool
        self.key_types: tuple[SqlType, ...] = tuple(c.type for c in table.key_columns)
        self.value_types: tuple[SqlType, ...] = tuple(table.by_name[c].type for c in columns)
        #: Where a column stands in what is emitted.
        self.position = {name: i for i, name in enumerate((*table.key, *columns))}
        self.forgotten_ts = -1
        position = {c.name: i for i, c in enumerate(table.value_columns)}
        self._bits = np.array([position[c] for c in columns], np.int64)
        self._offsets = np.cumsum([0] + [2 if t.wide else 1 for t in self.value_types], dtype=np.int64)
        self._value_width = key_width(self.value_types, nullable=True)
        self._index = KeyIndex(key_width(self.key_types, nullable=False))
        self._rows = np.zeros((self._index.capacity, VALUES + self._value_width), np.int64)
        self._mark = np.zeros(self._index.capacity, np.int64)
        self._live = 0

    def __len__(self) -> int:
        """Rows that the store holds, as far as known."""
        return self._live

    @property
    def types(self) -> tuple[SqlType, ...]:
        """Types of the columns that are emitted."""
        return self.key_types + self.value_types

    def unresolved(self, changes: RowChanges) -> Int64:
        """Positions in `changes` of one change for each row that must be read from the store before `step`.

        The state stays as it is.
        """
        words = self._key_words(changes)
        ids = self._index.lookup(words)
        unknown = np.flatnonzero(ids < 0)
        strangers = KeyIndex(self._index.width, max(MIN_ENTRIES, 1 << len(unknown).bit_length()))
        ids[unknown] = self._index.capacity + strangers.upsert(words[unknown])[0]
        return undecided(
            self._rows,
            self._mark,
            ids,
            np.zeros(strangers.capacity, np.int64),
            self.forgotten_ts,
            changes.kinds.astype(np.int64),
            kernel_array(changes.ts),
        )

    def step(self, changes: RowChanges, reread: RowChanges | None = None) -> Changes:
        """Apply `changes`, in stream order, and emit -old +new of every row whose visible content differs.

        `reread` holds each row that was read from the store: a PUT of all its cells, DELETE_ROW where nothing was
        there, or UNDECODABLE, at a timestamp that no cell or delete of the row exceeded then. It replaces what
        is known; the row's changes in `changes` are ignored, and from then on nothing at or below the highest
        timestamp seen is decided by the stream alone. Rows besides those of `unresolved(changes)` may be among them.
        """
        if reread is None or not len(reread):
            return self._apply(changes, 0)
        return self._apply(_concat(reread, changes), len(reread))

    def replace(self, rows: RowChanges, *, horizon: int) -> Changes:
        """Make a scan of all owned slots the whole content, and emit the difference.

        `rows` are as in `step`'s `reread`. A scan shows no tombstones: `horizon` is the highest timestamp
        that one unseen by us may have (the store's clock at the scan); nothing at or below it is decided by
        the stream alone.
        """
        known = self._index.live_ids()
        self._rows[known, TS] = np.maximum(self._rows[known, TS], horizon)
        self.forgotten_ts = max(self.forgotten_ts, horizon)
        gone = np.zeros(self._index.capacity, np.bool_)
        gone[known] = True
        found = self._index.lookup(self._key_words(rows))
        gone[found[found >= 0]] = False
        everything = _concat(rows, self._absent(np.flatnonzero(gone)))
        return self._apply(everything, len(everything))

    def contents(self) -> Changes:
        live = self._index.live_ids()
        ids = live[self._rows[live, PRESENT] != 0]
        return Changes(self._columns(ids), np.ones(len(ids), np.int64))

    def export(self, slots: Bool) -> list[pa.RecordBatch]:
        """One batch: key and value columns, then the fields of the row's state; tombstones are among them."""
        ids = self._ids_in(slots)
        columns = self._columns(ids)
        arrays = [from_column(t, c, self._pool) for t, c in zip(self.types, columns)]
        arrays += [pa.array(self._rows[ids, f]) for f in (PRESENT, TS, DELETE_TS, BAD)]
        batch = pa.RecordBatch.from_arrays(arrays, names=self._names())
        return [batch.replace_schema_metadata({"forgotten_ts": str(self.forgotten_ts)})]

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        keys = len(self.key_types)
        for batch in batches:
            if batch.schema.names != self._names():
                raise CorruptState(
                    f"state of table {self.table.name} has the columns {', '.join(batch.schema.names)}, "
                    f"not {', '.join(self._names())}; rebuild the views of this table"
                )
            columns = [to_column(t, a, self._pool) for t, a in zip(self.types, batch.columns)]
            n = batch.num_rows
            ids = self._enter(key_words(columns[:keys], self.key_types, n, nullable=False))
            for f, array in zip((PRESENT, TS, DELETE_TS, BAD), batch.columns[len(columns) :]):
                self._rows[ids, f] = array.to_numpy()
            self._rows[ids, VALUES:] = key_words(columns[keys:], self.value_types, n, nullable=True)
            self._live += self._count_live(ids)
            self.forgotten_ts = max(self.forgotten_ts, int(batch.schema.metadata[b"forgotten_ts"]))

    def drop(self, slots: Bool) -> None:
        ids = self._ids_in(slots)
        self._live -= self._count_live(ids)
        self._remove(ids)

    def live_text(self) -> list[Int64]:
        columns = zip(self.types, self._columns(self._index.live_ids()))
        return [c.codes if c.valid is None else c.codes[c.valid] for t, c in columns if t.kind is Kind.VARCHAR]

    def memory_bytes(self) -> int:
        return self._index.memory_bytes() + self._rows.nbytes + self._mark.nbytes

    def _apply(self, changes: RowChanges, rereads: int) -> Changes:
        """Apply `changes`, the first `rereads` of which are rows as read from the store."""
        n = len(changes)
        ids = self._enter(self._key_words(changes))
        touched, old = np.empty(n, np.int64), np.empty((n, self._rows.shape[1]), np.int64)
        count, refused = apply_changes(
            self._rows,
            self._mark,
            ids,
            rereads,
            changes.kinds.astype(np.int64),
            kernel_array(changes.ts),
            kernel_array(changes.present.view(np.int64)),
            key_words(changes.values, self.value_types, n, nullable=True),
            self._bits,
            self._offsets,
            touched,
            old,
        )
        if refused >= 0:
            raise ProtocolViolation(
                f"table {self.table.name}: change {refused - rereads} of the batch (timestamp "
                f"{changes.ts[refused]}) cannot be decided without reading its row from the store, and the "
                "cut does not hold that row"
            )
        out_keys = np.empty((2 * count, self._index.width), np.int64, order="F")
        out_values = np.empty((2 * count, self._value_width), np.int64, order="F")
        weights = np.empty(2 * count, np.int64)
        written, grown = changed_rows(self._rows, self._index.keys, touched[:count], old, out_keys, out_values, weights)
        self._live += grown
        self._forget()
        return Changes(self._unpack(out_keys[:written], out_values[:written]), weights[:written])

    def _enter(self, words: Int64) -> Int64:
        """The entry ids of these keys; those not known begin as deleted at `forgotten_ts`."""
        ids, fresh = self._index.upsert(words)
        self._rows = fit(self._rows, self._index.capacity)
        self._mark = fit(self._mark, self._index.capacity)
        start_rows(self._rows, fresh, self.forgotten_ts, (1 << len(self.value_types)) - 1)
        return ids

    def _forget(self) -> None:
        """Forget the oldest tombstones when there are too many, down to half of the limit."""
        limit = max(self.min_tombstones, int(self.tombstone_share * self._live))
        tombstones = len(self._index) - self._live
        if tombstones <= limit:
            return
        excess = tombstones - limit // 2
        ids = self._index.live_ids()
        ids = ids[(self._rows[ids, PRESENT] == 0) & (self._rows[ids, BAD] == 0)]
        ts = self._rows[ids, TS]
        newest_forgotten = int(np.partition(ts, excess - 1)[excess - 1])
        self.forgotten_ts = max(self.forgotten_ts, newest_forgotten)
        self._remove(ids[ts <= newest_forgotten])

    def _remove(self, ids: Int64) -> None:
        self._index.remove(ids)
        if self._index.wants_compaction():
            order = self._index.compact()
            self._rows = fit(self._rows[order], self._index.capacity)
            self._mark = np.zeros(self._index.capacity, np.int64)

    def _key_words(self, changes: RowChanges) -> Int64:
        return key_words(changes.keys, self.key_types, len(changes), nullable=False)

    def _unpack(self, keys: Int64, values: Int64) -> tuple[Column, ...]:
        return words_to_columns(keys, self.key_types, nullable=False) + words_to_columns(
            values, self.value_types, nullable=True
        )

    def _columns(self, ids: Int64) -> tuple[Column, ...]:
        return self._unpack(self._index.keys[ids], self._rows[ids, VALUES:])

    def _ids_in(self, slots: Bool) -> Int64:
        ids = self._index.live_ids()
        keys = words_to_columns(self._index.keys[ids], self.key_types, nullable=False)
        return ids[slots[slot_of(keys, self.key_types, self._pool, len(ids))]]

    def _count_live(self, ids: Int64) -> int:
        return int(((self._rows[ids, PRESENT] != 0) | (self._rows[ids, BAD] != 0)).sum())

    def _absent(self, ids: Int64) -> RowChanges:
        """These rows as if the store had been read and held none of them."""
        n = len(ids)
        columns = self._columns(ids)
        return RowChanges(
            columns[: len(self.key_types)],
            np.full(n, DELETE_ROW, np.int8),
            np.full(n, -1, np.int64),
            np.zeros(n, np.uint64),
            columns[len(self.key_types) :],
        )

    def _names(self) -> list[str]:
        keys = [f"key:{name}" for name in self.table.key]
        return keys + [f"value:{name}" for name in self.columns] + ["present", "ts", "delete_ts", "bad"]


def _concat(a: RowChanges, b: RowChanges) -> RowChanges:
    return RowChanges(
        tuple(Column.concat(pair) for pair in zip(a.keys, b.keys)),
        np.concatenate([a.kinds, b.kinds]),
        np.concatenate([a.ts, b.ts]),
        np.concatenate([a.present, b.present]),
        tuple(Column.concat(pair) for pair in zip(a.values, b.values)),
    )
