"""Aggregation: the groups of a view and the rows that show them (thesis 4.4; design sections 4 and 5).

Results follow DataFusion: an aggregate over no non-NULL value is NULL (count: 0); AVG of decimals is cut towards
zero; a sum that leaves its type wraps around (BIGINT at 64 bits, DECIMAL at 128), as DataFusion's does. AVG of
integers, all sums of DOUBLE and all variances are rounded once from exact sums, where DataFusion rounds at every row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vms.errors import CorruptState
from vms.kernels.exact_float import ExactSums, FixedPoint
from vms.kernels.groups import HIGH, LOW, GroupTable, average, average_double, stack, wide_column
from vms.kernels.hashing import slot_of
from vms.kernels.keys import key_width, key_words, words_to_columns
from vms.kernels.ordered import OrderedGroups
from vms.kernels.variance import ExactSquares, variance, variance_of_doubles
from vms.model.arrow import double_bits, from_column, to_column
from vms.model.changes import Bool, Changes, Column, Int64
from vms.model.text import TextPool
from vms.model.types import Kind
from vms.plan.contributions import AccumulatorKind, CallInputs, layout
from vms.plan.functions import TRUTHS, VARIANCES
from vms.plan.plan import Aggregate, Aggregation, Field, Node

#: The accumulator that counts the rows of a group: a group without rows does not exist.
_ROWS = 0


class AggregationOperation:
    """Emits -old +new of every group whose visible row changed; no row twice, no zero weight.

    `input_fields` are those below the PreAggregation that feeds this operation.

    With no group column there is always exactly one row, kept by the member that owns the fixed slot of the
    empty key. That member (`owner`) emits the row in its first step, whatever comes in; from then on the one
    group is part of the state, also while it has no rows, and travels with its slot. So a new owner that was
    handed the slot has the group and does not emit the row again.
    """

    def __init__(self, node: Node, input_fields: Sequence[Field], pool: TextPool, *, owner: bool = False) -> None:
        if not isinstance(node.spec, Aggregation):
            raise TypeError(f"node {node.id} is no aggregation")
        self.owner = owner
        self._pool = pool
        self._width = len(node.fields)
        self._group_count = node.spec.group_count
        self._calls = node.spec.calls
        self._total = self._group_count == 0
        self._key_types = node.types[: self._group_count]
        self._nullable = self._total or any(f.nullable for f in node.fields[: self._group_count])
        #: The group columns by whose slot the groups are spread: not always all of them.
        self._spread = tuple(range(self._group_count)) if node.distribution is None else node.distribution
        made = layout(self._group_count, self._calls, input_fields)
        self._accumulators, self._inputs = made.accumulators, made.calls
        self._sums = sum(a.kind is not AccumulatorKind.VALUE for a in made.accumulators)
        self._groups = GroupTable(key_width(self._key_types, self._nullable), self._sums)
        self._floats: dict[int, ExactSums] = {}
        self._squares: dict[int, ExactSquares] = {}
        self._orders: dict[int, OrderedGroups] = {}
        for call, needs in zip(self._calls, self._inputs):
            if needs.value is not None and call.function in ("min", "max"):
                self._orders[needs.value] = OrderedGroups(made.accumulators[needs.value].type, pool)
            elif needs.value is not None:
                self._floats[needs.value] = ExactSums()
                if call.function in VARIANCES:
                    self._squares[needs.value] = ExactSquares()
        self._exact: dict[str, FixedPoint] = {
            **{f"float{p}": sums for p, sums in self._floats.items()},
            **{f"square{p}": squares for p, squares in self._squares.items()},
        }

    def step(self, inputs: Sequence[Changes]) -> Changes:
        changes, shown = inputs[0], len(self._groups) > 0
        if self._total and self.owner and not shown:
            changes = Changes.concat([changes, self._nothing()], len(changes.columns))
        if not len(changes):
            return Changes.empty(self._width)
        keys = changes.columns[: self._group_count]
        words = key_words(keys, self._key_types, len(changes), nullable=self._nullable)
        first = self._group_count
        touched = self._groups.add(words, changes.weights, *stack(changes.columns[first : first + self._sums]))
        ids, old = touched.ids, touched.old
        before = self._values_of(ids, old)
        self._add_values(touched.of_row, changes)
        new = self._groups.sums(ids)
        values = [_joined(b, a) for b, a in zip(before, self._values_of(ids, new))]
        results = self._results(np.concatenate([old, new], axis=2), values)
        was, is_ = old[_ROWS, LOW] != 0, new[_ROWS, LOW] != 0
        if self._total:
            was, is_ = np.full(len(ids), shown), np.ones(len(ids), np.bool_)
        emitted = self._difference(ids, was, is_, results)
        self._remove(ids[~is_])
        return emitted

    def contents(self) -> Changes:
        ids = self._groups.index.live_ids()
        sums = self._groups.sums(ids)
        columns = self._keys(ids) + self._results(sums, self._values_of(ids, sums))
        return Changes(columns, np.ones(len(ids), np.int64))

    def export(self, slots: Bool) -> list[pa.RecordBatch]:
        """One batch, a row for each group: key columns, words of the sums, words of DOUBLE sums, value lists."""
        ids = self._in_slots(slots)
        if not len(ids):
            return []
        arrays = {f"g{i}": from_column(t, c, self._pool) for i, (t, c) in enumerate(self._typed_keys(ids))}
        for j, words in enumerate(self._groups.sums(ids)):
            arrays[f"low{j}"], arrays[f"high{j}"] = pa.array(words[LOW]), pa.array(words[HIGH])
        for name, exact in self._exact.items():
            self._fit(exact)
            flat = pa.array(exact.words(ids).ravel())
            arrays[name] = pa.FixedSizeListArray.from_arrays(flat, exact.width)
        for p, order in self._orders.items():
            arrays[f"value{p}"], arrays[f"count{p}"] = self._value_lists(p, order, ids)
        return [pa.record_batch(arrays)]

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            expected = self._group_count + 2 * self._sums + len(self._exact) + 2 * len(self._orders)
            if batch.num_columns != expected:
                raise CorruptState(
                    f"state of an aggregation has {batch.num_columns} columns instead of {expected}; "
                    "rebuild the views that use it"
                )
            self._load(batch)

    def drop(self, slots: Bool) -> None:
        ids = self._in_slots(slots)
        for exact in self._exact.values():
            self._fit(exact)
            exact.clear(ids)
        flags = np.zeros(self._groups.index.capacity, np.bool_)
        flags[ids] = True
        for order in self._orders.values():
            order.remove(flags)
        self._remove(ids)

    def live_text(self) -> list[Int64]:
        found = [order.text_codes() for order in self._orders.values()]
        for type_, column in self._typed_keys(self._groups.index.live_ids()):
            if type_.kind is Kind.VARCHAR:
                found.append(column.codes if column.valid is None else column.codes[column.valid])
        return found

    def memory_bytes(self) -> int:
        exact = sum(e.memory_bytes() for e in self._exact.values())
        return self._groups.memory_bytes() + exact + sum(o.memory_bytes() for o in self._orders.values())

    def _nothing(self) -> Changes:
        """A contribution to the grand total that changes nothing."""
        zero = np.zeros(1, np.int64)
        sums = [Column(zero)] * self._sums
        values = [Column(zero, np.zeros(1, np.bool_))] * (len(self._accumulators) - self._sums)
        return Changes((*sums, *values), np.ones(1, np.int64))

    def _add_values(self, of_row: Int64, changes: Changes) -> None:
        if not (self._floats or self._orders):
            return
        occurrences = changes.weights * changes.columns[self._group_count + _ROWS].codes
        for p, sums in self._floats.items():
            self._fit(sums)
            column = changes.columns[self._group_count + p]
            sums.add(of_row, column.codes, occurrences)  # the code of a NULL is that of 0.0
        for p, squares in self._squares.items():
            self._fit(squares)
            squares.add(of_row, changes.columns[self._group_count + p].codes, occurrences)
        for p, order in self._orders.items():
            order.add(of_row, changes.columns[self._group_count + p], occurrences)

    def _values_of(self, ids: Int64, sums: Int64) -> list[Column | None]:
        """For each call what it needs of the groups' values as they are now; None where sums are all.

        `sums`: the accumulators of the same groups for the same rows.
        """
        return [self._value_of(c, n, ids, sums) for c, n in zip(self._calls, self._inputs)]

    def _value_of(self, call: Aggregate, needs: CallInputs, ids: Int64, sums: Int64) -> Column | None:
        if needs.value is None:
            return None
        if needs.value in self._orders:
            return self._orders[needs.value].extremes(ids, largest=call.function == "max")
        exact = self._floats[needs.value]
        self._fit(exact)
        if call.function in VARIANCES:
            squares = self._squares[needs.value]
            self._fit(squares)
            assert needs.count is not None
            counts = sums[needs.count, LOW]
            return Column(variance_of_doubles(counts, exact.words(ids), squares.words(ids), _of_sample(call)))
        return Column(exact.rounded(ids))

    def _results(self, sums: Int64, values: Sequence[Column | None]) -> tuple[Column, ...]:
        """One column for each call, from the groups' sums and from what `_values_of` gave for the same groups."""
        return tuple(self._result(c, n, sums, v) for c, n, v in zip(self._calls, self._inputs, values))

    def _result(self, call: Aggregate, needs: CallInputs, sums: Int64, value: Column | None) -> Column:
        if call.function in ("min", "max"):
            assert value is not None
            return value
        assert needs.count is not None
        counts = sums[needs.count, LOW]
        if call.function == "count":
            return Column(counts)
        present = counts > int(call.function in VARIANCES and _of_sample(call))
        valid = None if present.all() else present
        if call.function in VARIANCES:
            return Column(np.where(present, self._variances(call, needs, sums, value), 0), valid)
        if value is not None:
            bits = value.codes
            if call.function == "avg":
                bits = (bits.view(np.float64) / np.where(present, counts, 1)).view(np.int64)
            return Column(bits, valid)
        assert needs.sum is not None
        low, high = sums[needs.sum]
        if call.function in TRUTHS:
            true = (low == counts) & present if call.function == "bool_and" else low > 0
            return Column(true.astype(np.int64), valid)
        if call.function == "avg" and call.type.kind is Kind.DOUBLE:
            return Column(average_double(low, high, counts), valid)
        if call.function == "avg":
            digits = call.type.scale - self._accumulators[needs.sum].type.scale
            low, high = average(low, high, counts, 10**digits)
        return wide_column(low, high, valid) if call.type.wide else Column(low, valid)

    def _variances(self, call: Aggregate, needs: CallInputs, sums: Int64, value: Column | None) -> Int64:
        """Bits of the variances, or of their roots."""
        if value is not None:
            bits = value.codes
        else:
            assert needs.count is not None and needs.sum is not None
            scale, squares = self._accumulators[needs.sum].type.scale, sums[list(needs.squares)]
            bits = variance(sums[needs.count, LOW], sums[needs.sum], squares, scale, _of_sample(call))
        return bits if call.function.startswith("var") else double_bits(np.sqrt(bits.view(np.float64)))

    def _difference(self, ids: Int64, was: Bool, is_: Bool, results: Sequence[Column]) -> Changes:
        """-old of the groups that were there, +new of those that are, where the two differ.

        `results` hold the old rows of all groups, then the new ones.
        """
        changed = was != is_
        for column in results:
            changed |= _halves_differ(column)
        minus, plus = np.flatnonzero(changed & was), np.flatnonzero(changed & is_)
        keys = self._keys(ids[np.concatenate([minus, plus])])
        rows = np.concatenate([minus, plus + len(ids)])
        weights = np.repeat(np.array([-1, 1], np.int64), [len(minus), len(plus)])
        return Changes(keys + tuple(column.take(rows) for column in results), weights)

    def _keys(self, ids: Int64) -> tuple[Column, ...]:
        return words_to_columns(self._groups.index.keys[ids], self._key_types, nullable=self._nullable)

    def _typed_keys(self, ids: Int64) -> list:
        return list(zip(self._key_types, self._keys(ids)))

    def _in_slots(self, slots: Bool) -> Int64:
        ids = self._groups.index.live_ids()
        keys = self._keys(ids)
        spread, types = [keys[i] for i in self._spread], [self._key_types[i] for i in self._spread]
        return ids[slots[slot_of(spread, types, self._pool, len(ids))]]

    def _fit(self, exact: FixedPoint) -> None:
        exact.fit(self._groups.index.capacity)

    def _remove(self, ids: Int64) -> None:
        """Forget groups whose values are gone already."""
        if len(ids):
            self._groups.remove(ids)
        if self._groups.index.wants_compaction():
            before = self._groups.compact()
            for exact in self._exact.values():
                exact.renumber(before, self._groups.index.capacity)
            for order in self._orders.values():
                order.renumber(before)

    def _value_lists(self, p: int, order: OrderedGroups, ids: Int64) -> tuple[pa.Array, pa.Array]:
        """The values of each group as a list, and how often each occurs."""
        groups, values, counts = order.entries()
        place = np.full(self._groups.index.capacity, -1, np.int64)
        place[ids] = np.arange(len(ids))
        rows = np.flatnonzero(place[groups] >= 0)
        rows = rows[np.argsort(place[groups[rows]], kind="stable")]
        lengths = np.bincount(place[groups[rows]], minlength=len(ids))
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        array = from_column(self._accumulators[p].type, values.take(rows), self._pool)
        return (
            pa.ListArray.from_arrays(offsets, array),
            pa.ListArray.from_arrays(offsets, pa.array(counts[rows])),
        )

    def _load(self, batch: pa.RecordBatch) -> None:
        keys = [to_column(t, batch.column(f"g{i}"), self._pool) for i, t in enumerate(self._key_types)]
        ids = self._groups.enter(key_words(keys, self._key_types, batch.num_rows, nullable=self._nullable))
        words = [(batch.column(f"low{j}"), batch.column(f"high{j}")) for j in range(self._sums)]
        self._groups.put(ids, np.array([[low.to_numpy(), high.to_numpy()] for low, high in words]))
        for name, exact in self._exact.items():
            self._fit(exact)
            exact.put(ids, batch.column(name).flatten().to_numpy().reshape(-1, exact.width))
        for p, order in self._orders.items():
            values, counts = batch.column(f"value{p}"), batch.column(f"count{p}")
            groups = np.repeat(ids, values.value_lengths().to_numpy())
            column = to_column(self._accumulators[p].type, values.flatten(), self._pool)
            order.add(groups, column, counts.flatten().to_numpy())


def _of_sample(call: Aggregate) -> bool:
    """Whether it is the variance of a sample, which one value does not have."""
    return call.function.endswith("_samp")


def _joined(a: Column | None, b: Column | None) -> Column | None:
    return None if a is None or b is None else Column.concat([a, b])


def _halves_differ(column: Column) -> Bool:
    """Where the second half of a column holds another value than the first."""
    n = len(column) // 2
    differ = column.codes[:n] != column.codes[n:]
    if column.valid is not None:
        differ |= column.valid[:n] != column.valid[n:]
    if column.high is not None:
        differ |= column.high[:n] != column.high[n:]
    return differ
