"""Window functions: recomputed for the partitions that changed, and only for these (design section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vms.errors import CorruptState
from vms.kernels import windows
from vms.kernels.consolidate import consolidate
from vms.kernels.exact_float import frame_sums
from vms.kernels.groups import average, average_double, wide_column
from vms.kernels.hashing import slot_of
from vms.kernels.join_index import LEFT, JoinIndex
from vms.kernels.keys import key_width, key_words, words_to_columns
from vms.kernels.order import RowOrder, sort_words
from vms.kernels.windows import Frames, Runs
from vms.maintenance.expressions import Evaluator
from vms.model.arrow import from_changes, to_changes
from vms.model.changes import Bool, Changes, Column, Int64
from vms.model.order import SortKey
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType
from vms.plan.plan import Frame, Node, Window, WindowCall


class WindowOperation:
    """Emits the difference between the old and the new rows of every partition that changed.

    No row twice, no zero weight; rows of a partition whose results stay are not emitted. All rows that came in
    are kept, under their partition. A row that occurs several times stands several times in the order.
    """

    def __init__(self, node: Node, input_types: Sequence[SqlType], pool: TextPool) -> None:
        if not isinstance(node.spec, Window):
            raise TypeError(f"node {node.id} is no window")
        spec = node.spec
        self._spec, self._pool = spec, pool
        self._types, self._all_types = tuple(input_types), node.types
        self._key_types = tuple(input_types[p] for p in spec.partition)
        self._spread = spec.partition if node.distribution is None else node.distribution
        self._order = RowOrder(spec.order, input_types, pool)
        named = {*spec.partition, *(k.column for k in spec.order)}
        others = [SortKey(c) for c in range(len(input_types)) if c not in named]
        self._ties = RowOrder(others, input_types, pool) if any(c.depends_on_ties for c in spec.calls) else None
        extremes = {c.arg for c in spec.calls if c.function in ("min", "max") and c.arg is not None}
        self._values = {a: RowOrder([SortKey(a)], input_types, pool) for a in extremes}
        self._defaults = {c: Evaluator((c.default,), pool) for c in spec.calls if c.default is not None}
        #: The rows are the left side; there is no right one.
        self._rows = JoinIndex(key_width(self._key_types, nullable=True), (key_width(input_types, nullable=True), 1))

    def step(self, inputs: Sequence[Changes]) -> Changes:
        changes = inputs[0]
        if not len(changes):
            return Changes.empty(len(self._all_types))
        partitions = self._rows.enter(self._key_words(changes))
        changed = np.unique(partitions)
        old_partition, old = self._in_partitions(changed)
        self._add(partitions, changes)
        new_partition, new = self._in_partitions(changed)
        self._rows.release(changed)
        old = Changes(old.columns, -old.weights)
        both = Changes.concat([old, new], len(self._types))
        emitted = self._computed(np.concatenate([old_partition, new_partition + len(changed)]), both)
        self._forget_text()
        return consolidate(emitted, self._all_types)

    def contents(self) -> Changes:
        rows = self._all_rows()
        return consolidate(self._computed(self._rows.find(self._key_words(rows)), rows), self._all_types)

    def export(self, slots: Bool) -> list[pa.RecordBatch]:
        """One batch: the rows as changes."""
        rows = self._rows_in(slots)
        return [from_changes(self._types, rows, self._pool)] if len(rows) else []

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            if batch.num_columns != len(self._types) + 1:
                raise CorruptState(
                    f"state of a window has {batch.num_columns - 1} columns instead of {len(self._types)}; "
                    "rebuild the views that use it"
                )
            self._merge(to_changes(self._types, batch, self._pool))

    def drop(self, slots: Bool) -> None:
        rows = self._rows_in(slots)
        self._merge(Changes(rows.columns, -rows.weights))

    def live_text(self) -> list[Int64]:
        found = [order.text_codes() for order in self._orders()]
        for type_, column in zip(self._types, self._all_rows().columns):
            if type_.kind is Kind.VARCHAR:
                found.append(column.codes if column.valid is None else column.codes[column.valid])
        return found

    def memory_bytes(self) -> int:
        return self._rows.memory_bytes() + sum(order.memory_bytes() for order in self._orders())

    # --- rows

    def _orders(self) -> list[RowOrder]:
        return [self._order, *([] if self._ties is None else [self._ties]), *self._values.values()]

    def _forget_text(self) -> None:
        """The numbers of texts are used while a step runs; they are kept as long as they are not many."""
        for order in self._orders():
            if len(order.text_codes()) > 2 * len(self._types) * len(self._rows.row_ids(LEFT)) + 64:
                order.forget_text([Column.empty()] * len(self._types))

    def _key_words(self, rows: Changes) -> Int64:
        columns = [rows.columns[p] for p in self._spec.partition]
        return key_words(columns, self._key_types, len(rows), nullable=True)

    def _add(self, partitions: Int64, rows: Changes) -> None:
        words = key_words(rows.columns, self._types, len(rows), nullable=True)
        self._rows.add(LEFT, partitions, words, rows.weights)

    def _merge(self, rows: Changes) -> None:
        """Add rows, emitting nothing."""
        partitions = self._rows.enter(self._key_words(rows))
        self._add(partitions, rows)
        self._rows.release(partitions)

    def _in_partitions(self, partitions: Int64) -> tuple[Int64, Changes]:
        """The rows of these partitions, and the position of the partition of each."""
        positions, ids = self._rows.probe(LEFT, partitions)
        return positions, self._at(ids)

    def _at(self, ids: Int64) -> Changes:
        columns = words_to_columns(self._rows.words(LEFT, ids), self._types, nullable=True)
        return Changes(columns, self._rows.weights(LEFT, ids))

    def _all_rows(self) -> Changes:
        return self._at(self._rows.row_ids(LEFT))

    def _rows_in(self, slots: Bool) -> Changes:
        rows = self._all_rows()
        spread, types = [rows.columns[i] for i in self._spread], [self._types[i] for i in self._spread]
        return rows.take(slots[slot_of(spread, types, self._pool, len(rows))])

    # --- results

    def _computed(self, partition: Int64, rows: Changes) -> Changes:
        """The rows with their results, each occurrence by itself; `partition` numbers the partitions."""
        words = np.empty((len(rows), 1 + self._order.width), np.int64)
        words[:, 0] = partition
        words[:, 1:] = self._order.words(rows.columns, len(rows))
        by_order = sort_words(words)
        words = words[by_order]
        new = np.ones(len(words), np.bool_)
        new[1:] = (words[1:] != words[:-1]).any(axis=1)
        if self._ties is not None and not new.all():
            by_order = self._untied(by_order, new, rows)
        times = np.abs(rows.weights[by_order])
        rows = rows.take(np.repeat(by_order, times))
        starts = np.ones(len(words), np.bool_)
        starts[1:] = words[1:, 0] != words[:-1, 0]
        partitions, peers = (windows.runs(_expanded(flags, times)) for flags in (starts, new))
        results = [self._result(call, rows, partitions, peers) for call in self._spec.calls]
        return Changes((*rows.columns, *results), np.sign(rows.weights))

    def _untied(self, by_order: Int64, new: Bool, rows: Changes) -> Int64:
        """Rows that the order leaves equal in the order of their other columns."""
        assert self._ties is not None
        runs = windows.runs(new)
        tied = np.flatnonzero(runs.end - runs.first > 1)
        there = rows.take(by_order[tied])
        words = np.empty((len(tied), 1 + self._ties.width), np.int64)
        words[:, 0] = runs.first[tied]
        words[:, 1:] = self._ties.words(there.columns, len(tied))
        result = by_order.copy()
        result[tied] = by_order[tied][sort_words(words)]
        return result

    def _result(self, call: WindowCall, rows: Changes, partitions: Runs, peers: Runs) -> Column:
        match call.function:
            case "row_number":
                return Column(windows.numbers(partitions))
            case "rank":
                return Column(windows.ranks(partitions, peers))
            case "dense_rank":
                return Column(windows.dense_ranks(partitions, peers))
            case "ntile":
                return Column(windows.tiles(partitions, call.number))
            case "percent_rank":
                others = np.maximum(partitions.end - partitions.first - 1, 1)
                return _double((peers.first - partitions.first) / others)
            case "cume_dist":
                return _double((peers.end - partitions.first) / (partitions.end - partitions.first))
            case "lag" | "lead":
                by = -call.number if call.function == "lag" else call.number
                assert call.arg is not None
                return windows.picked(rows.columns[call.arg], windows.shifted(partitions, by), self._default(call))
        frames = self._frames(call.frame, rows, partitions, peers)
        if call.aggregates:
            return self._aggregate(call, rows, frames)
        assert call.arg is not None
        n = {"first_value": 1, "last_value": -1}.get(call.function, call.number)
        return windows.picked(rows.columns[call.arg], windows.nth(frames, n))

    def _default(self, call: WindowCall) -> Column | None:
        if call not in self._defaults:
            return None
        return self._defaults[call].evaluate(Changes((), np.ones(1, np.int64))).columns[0]

    def _frames(self, frame: Frame, rows: Changes, partitions: Runs, peers: Runs) -> Frames:
        if frame.rows:
            return windows.row_frames(partitions, frame.start, frame.end)
        key = None
        if frame.start or frame.end:
            sort = self._spec.order[0]
            column = rows.columns[sort.column]
            key = (~column.codes if sort.descending else column.codes, column.valid_mask())
        return windows.range_frames(partitions, peers, frame.start, frame.end, key)

    def _aggregate(self, call: WindowCall, rows: Changes, frames: Frames) -> Column:
        if call.arg is None:
            return Column(frames.end - frames.first)
        column, type_ = rows.columns[call.arg], self._types[call.arg]
        if call.function in ("min", "max"):
            found = windows.extreme(
                self._rank(call.arg, rows), column.valid_mask(), frames, largest=call.function == "max"
            )
            return windows.picked(column, found)
        counts = windows.count(column.valid_mask(), frames)
        if call.function == "count":
            return Column(counts)
        present = counts != 0
        valid = None if present.all() else present
        if type_.kind is Kind.DOUBLE:
            bits = frame_sums(column.codes, *frames)
            if call.function == "avg":
                bits = (bits.view(np.float64) / np.where(present, counts, 1)).view(np.int64)
            return Column(bits, valid)
        low, high = windows.total(column, frames)
        if call.function == "avg" and call.type.kind is Kind.DOUBLE:
            return Column(average_double(low, high, counts), valid)
        if call.function == "avg":
            low, high = average(low, high, counts, 10 ** (call.type.scale - type_.scale))
        return wide_column(low, high, valid) if call.type.wide else Column(low, valid)

    def _rank(self, column: int, rows: Changes) -> Int64:
        """Numbers that order the values of a column."""
        order = self._values[column]
        words = order.key_words(order.keys[0], rows.columns[column])[1:]
        if len(words) == 1:
            return words[0]
        rank = np.empty(len(rows), np.int64)
        rank[sort_words(np.stack(words, axis=1))] = np.arange(len(rows))
        return rank


def _expanded(starts: Bool, times: Int64) -> Bool:
    """The flags of rows for each of their occurrences: only the first one starts anything."""
    flags = np.zeros(int(times.sum()), np.bool_)
    flags[(np.cumsum(times) - times)[starts]] = True
    return flags


def _double(values: np.ndarray) -> Column:
    return Column(values.view(np.int64))
