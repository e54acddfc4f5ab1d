"""A seeded history of changes over generated tables: what clients of the base tables might have written.

A stream starts from empty tables. All rows are inserted once, the tables interleaved in proportion to their
sizes; between the inserts, live rows are overwritten, changed in part or deleted, and deleted keys return.
New values are those of another row of the same table, so that updates move rows between groups and join
partners that exist. Equal arguments give equal streams.

Inside, a change is a few integers: which row's key, which row's values, which columns. Nothing here loops
over changes in Python, so that a stream at scale factor 0.1 is made in a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bench.tpch.schema import TABLES, arrow_schema
from vms.errors import InvalidValue
from vms.kernels.hashing import jit
from vms.model.changes import Bool, Int64
from vms.model.table import BaseTable

INSERT, UPDATE, PARTIAL, DELETE, REINSERT = range(5)

#: A partial put names at most so many columns, as an application's UPDATE statements do.
_MAX_PARTIAL_COLUMNS = 3
#: How often a partial put sets a nullable column to NULL.
_NULL_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class TableBatch:
    """Rows of one table for one call of the API; no key appears twice.

    `put` has whole rows, `update` the key and some other columns (NULL is a value), `delete` the key alone.
    """

    table: str
    kind: Literal["put", "update", "delete"]
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Events:
    """Changes of one table in stream order.

    `index` is the place in the whole stream, `row` the row of the generated table whose key is changed,
    `donor` the one whose values it takes. `named` has bit j set where value column j is written, `nulls`
    where it is set to NULL.
    """

    index: Int64
    kind: npt.NDArray[np.int8]
    row: Int64
    donor: Int64
    named: npt.NDArray[np.uint64]
    nulls: npt.NDArray[np.uint64]

    def take(self, which: slice | Int64 | Bool) -> Events:
        return Events(*(getattr(self, f)[which] for f in self.__slots__))

    def between(self, start: int, stop: int) -> Events:
        """Those with start <= index < stop."""
        low, high = np.searchsorted(self.index, [start, stop])
        return self.take(slice(low, high))


class ChangeStream:
    """The history of `tables`; the shares are parts of all changes, what remains is first inserts.

    With `zipf` = s > 0, the live row in place n is chosen with a probability like n**-s (a continuous
    approximation), so that a few keys take most changes; a hot key that is deleted leaves its place to
    another. `load_share` of the rows are inserted before anything else happens: the first `loaded` changes.
    """

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        seed: int,
        delete_share: float = 0.09,
        update_share: float = 0.15,
        partial_share: float = 0.15,
        reinsert_share: float = 0.04,
        zipf: float | None = None,
        definitions: Mapping[str, BaseTable] = TABLES,
        load_share: float = 0.0,
    ) -> None:
        shares = {
            UPDATE: update_share, PARTIAL: partial_share, DELETE: delete_share, REINSERT: reinsert_share
        }  # fmt: skip
        if min(shares.values()) < 0 or sum(shares.values()) >= 1:
            given = ", ".join(f"{share:g}" for share in shares.values())
            raise InvalidValue(f"shares must not be negative and must leave room for inserts, not {given}")
        if zipf is not None and zipf < 0:
            raise InvalidValue(f"the Zipf exponent must not be negative: {zipf}")
        if not 0 <= load_share <= 1:
            raise InvalidValue(f"the share of rows to load must lie between 0 and 1, not {load_share:g}")
        self.tables = dict(tables)
        self.definitions = {name: definitions[name] for name in tables}
        rng = np.random.default_rng(seed)
        sizes = np.array([t.num_rows for t in tables.values()], np.int64)
        self.loaded = round(load_share * int(sizes.sum()))
        kinds, rows = _history(rng, sizes, shares, zipf or 0.0, self.loaded)
        self.kinds = kinds
        self.events = self._split_by_table(rng, kinds, rows, sizes)

    def __len__(self) -> int:
        """The number of changes, over all tables."""
        return len(self.kinds)

    def _split_by_table(
        self, rng: np.random.Generator, kinds: npt.NDArray[np.int8], rows: Int64, sizes: Int64
    ) -> dict[str, Events]:
        first = np.concatenate([[0], np.cumsum(sizes)])
        table_of = np.searchsorted(first, rows, side="right") - 1
        self._column_sets: dict[str, npt.NDArray[np.uint64]] = {}
        found = {}
        for i, (name, table) in enumerate(self.definitions.items()):
            index = np.flatnonzero(table_of == i)
            kind, row = kinds[index], rows[index] - first[i]
            donor = np.where(kind == INSERT, row, rng.integers(0, max(sizes[i], 1), len(index)))
            sets = _column_sets(rng, len(table.value_columns))
            self._column_sets[name] = sets
            whole = np.uint64((1 << len(table.value_columns)) - 1)
            some = sets[rng.integers(0, len(sets), len(index))]
            named = np.where(kind == PARTIAL, some, np.where(kind == DELETE, np.uint64(0), whole))
            nulls = np.where(kind == PARTIAL, named & _random_nulls(rng, table, len(index)), np.uint64(0))
            found[name] = Events(index, kind, row, donor, named, nulls)
        return found

    def batches(self, batch_size: int, start: int = 0, stop: int | None = None) -> Iterator[list[TableBatch]]:
        """The changes start <= index < stop (default: all) in steps of `batch_size`.

        A step is a list of calls that are to be made in the order given. Within a step, changes of different
        keys may change places; those of one key never do.
        """
        stop = len(self) if stop is None else stop
        for first in range(start, stop, batch_size):
            step = {n: e.between(first, min(first + batch_size, stop)) for n, e in self.events.items()}
            calls = [call for name, events in step.items() for call in self._calls(name, events)]
            yield [batch for _, batch in sorted(calls, key=lambda call: call[0])]

    def _calls(self, name: str, events: Events) -> list[tuple[int, TableBatch]]:
        """Batches of equal kind and columns, each with its turn: a key's n-th change has turn n."""
        turn = _occurrence(events.row)
        shape = np.searchsorted(self._column_sets[name], events.named)
        shape[events.kind == DELETE] = -1
        shape[np.isin(events.kind, (INSERT, UPDATE, REINSERT))] = -2
        calls = []
        for t, s in np.unique(np.stack([turn, shape], axis=1), axis=0).tolist():
            part = events.take((turn == t) & (shape == s))
            calls.append((t, self._table_batch(name, part)))
        return calls

    def _table_batch(self, name: str, events: Events) -> TableBatch:
        table = self.definitions[name]
        kind: Literal["put", "update", "delete"] = "put"
        if events.kind[0] == DELETE:
            kind = "delete"
        elif events.kind[0] == PARTIAL:
            kind = "update"
        columns = [(c.name, self.tables[name][c.name].take(pa.array(events.row))) for c in table.key_columns]
        for j, c in enumerate(table.value_columns):
            bit = np.uint64(1 << j)
            if events.named[0] & bit:
                columns.append((c.name, self._values(name, c.name, events.donor, (events.nulls & bit) != 0)))
        return TableBatch(name, kind, self._as_table(name, dict(columns)))

    def final_tables(self, stop: int | None = None) -> dict[str, pa.Table]:
        """The base tables after the first `stop` changes (default: all), in no particular row order."""
        stop = len(self) if stop is None else stop
        return {name: self._fold(name, events.between(0, stop)) for name, events in self.events.items()}

    def _fold(self, name: str, events: Events) -> pa.Table:
        table, size = self.definitions[name], self.tables[name].num_rows

        def last(which: Bool) -> Int64:
            place = np.full(size, -1, np.int64)
            place[events.row[which]] = np.flatnonzero(which)
            return place

        whole = last(events.kind != PARTIAL)
        live = np.flatnonzero(whole >= 0)
        live = live[events.kind[whole[live]] != DELETE]
        columns = {c.name: self.tables[name][c.name].take(pa.array(live)) for c in table.key_columns}
        for j, c in enumerate(table.value_columns):
            bit = np.uint64(1 << j)
            newest = last((events.named & bit) != 0)[live]
            null = (events.nulls[newest] & bit) != 0
            columns[c.name] = self._values(name, c.name, events.donor[newest], null)
        return self._as_table(name, columns)

    def _values(self, name: str, column: str, donor: Int64, null: Bool) -> pa.ChunkedArray:
        values = self.tables[name][column].take(pa.array(donor))
        return pc.if_else(pa.array(~null), values, pa.scalar(None, values.type)) if null.any() else values

    def _as_table(self, name: str, columns: dict[str, pa.ChunkedArray]) -> pa.Table:
        """The columns as a table, in declared order."""
        fields = [field for field in arrow_schema(self.definitions[name]) if field.name in columns]
        return pa.table([columns[f.name] for f in fields], schema=pa.schema(fields))


def _history(
    rng: np.random.Generator, sizes: Int64, shares: Mapping[int, float], zipf: float, loaded: int
) -> tuple[npt.NDArray[np.int8], Int64]:
    """The kind of every change and its row (counted over all tables), in stream order: `loaded` inserts first."""
    inserts = int(sizes.sum())
    total = inserts / (1 - sum(shares.values()))
    counts = {INSERT: inserts, **{kind: round(share * total) for kind, share in shares.items()}}
    kinds = np.repeat(np.fromiter(counts, np.int8), list(counts.values()))
    rng.shuffle(kinds[loaded:])
    progress = np.concatenate([(np.arange(n) + 0.5) / max(n, 1) for n in sizes] or [np.empty(0)])
    order = np.argsort(progress, kind="stable").astype(np.int64)
    rows = _choose_rows(kinds, order, rng.random(len(kinds)), float(zipf))
    return kinds[rows >= 0], rows[rows >= 0]


@jit
def _place(u, n, zipf):
    """A place in 0..n-1 from u in [0, 1), by inverting the distribution of x**-zipf on [1, n+1)."""
    if zipf == 0.0:
        p = np.int64(u * n)
    elif zipf == 1.0:
        p = np.int64((n + 1.0) ** u) - 1
    else:
        p = np.int64((1.0 + u * ((n + 1.0) ** (1.0 - zipf) - 1.0)) ** (1.0 / (1.0 - zipf))) - 1
    return min(max(p, 0), n - 1)


@jit
def _choose_rows(kinds, order, draws, zipf):
    """The row of each change; -1 where there is none to choose (no live row, or no deleted one to return)."""
    live, live_count = np.empty(order.shape[0], np.int64), 0
    dead, dead_count = np.empty(order.shape[0], np.int64), 0
    rows = np.full(kinds.shape[0], -1, np.int64)
    inserted = 0
    for i in range(kinds.shape[0]):
        if kinds[i] == INSERT:
            rows[i] = order[inserted]
            inserted += 1
        elif kinds[i] == REINSERT:
            if dead_count == 0:
                continue
            p = _place(draws[i], dead_count, 0.0)
            rows[i] = dead[p]
            dead_count -= 1
            dead[p] = dead[dead_count]
        else:
            if live_count == 0:
                continue
            p = _place(draws[i], live_count, zipf)
            rows[i] = live[p]
            if kinds[i] == DELETE:
                live_count -= 1
                live[p] = live[live_count]
                dead[dead_count] = rows[i]
                dead_count += 1
            continue
        live[live_count] = rows[i]
        live_count += 1
    return rows


def _column_sets(rng: np.random.Generator, width: int) -> npt.NDArray[np.uint64]:
    """Column sets (as bits) that partial puts of one table name: disjoint, small, together all columns."""
    order, sets = rng.permutation(width).tolist(), []
    while order:
        size = int(rng.integers(1, _MAX_PARTIAL_COLUMNS + 1))
        sets.append(sum(1 << j for j in order[:size]))
        order = order[size:]
    return np.array(sorted(sets), np.uint64)


def _random_nulls(rng: np.random.Generator, table: BaseTable, count: int) -> npt.NDArray[np.uint64]:
    """For each change, the nullable value columns that become NULL if it names them."""
    bits = np.zeros(count, np.uint64)
    for j, c in enumerate(table.value_columns):
        if c.nullable:
            bits |= np.where(rng.random(count) < _NULL_SHARE, np.uint64(1 << j), np.uint64(0))
    return bits


def _occurrence(rows: Int64) -> Int64:
    """How many equal values stand before each one."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(rows) else order
    lengths = np.diff(np.append(begins, len(rows)))
    count = np.empty(len(rows), np.int64)
    count[order] = np.arange(len(rows)) - np.repeat(begins, lengths)
    return count
