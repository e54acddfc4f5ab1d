"""PreAggregation: rows to contributions, combined before they travel (thesis 4.4; layout: plan/contributions)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vms.kernels.groups import HIGH, LOW, GroupTable, stack, wide_column
from vms.kernels.keys import key_width, key_words, words_to_columns
from vms.kernels.variance import square_high, square_low
from vms.model.changes import Bool, Changes, Column, Int64
from vms.model.text import TextPool
from vms.plan.contributions import Accumulator, AccumulatorKind, layout
from vms.plan.plan import Field, Node, PreAggregation


class PreAggregationOperation:
    """Stateless. Its output is a multiset like any other: a row counts as often as its weight says.

    With `combine` (rows go to other members), rows of a batch with equal group and equal values become one
    contribution of weight 1. Without it each row stays one contribution with its own weight: no hashing here,
    as `Aggregation` hashes anyway.
    """

    def __init__(self, node: Node, input_fields: Sequence[Field], pool: TextPool, *, combine: bool = True) -> None:
        if not isinstance(node.spec, PreAggregation):
            raise TypeError(f"node {node.id} is no pre-aggregation")
        self.combine = combine
        self._group = node.spec.group
        self._accumulators = layout(len(self._group), node.spec.calls, input_fields).accumulators
        self._sums = sum(a.kind is not AccumulatorKind.VALUE for a in self._accumulators)
        groups = len(self._group)
        #: Columns of the output by which contributions are combined: the group and the values.
        self._keys = (*range(groups), *range(groups + self._sums, len(node.fields)))
        self._key_types = tuple(node.types[k] for k in self._keys)
        self._nullable = not self._keys or any(node.fields[k].nullable for k in self._keys)

    def step(self, inputs: Sequence[Changes]) -> Changes:
        rows = inputs[0]
        groups = tuple(rows.columns[g] for g in self._group)
        contributions = Changes(groups + tuple(self._contribution(a, rows) for a in self._accumulators), rows.weights)
        return self._combined(contributions) if self.combine and len(rows) else contributions

    def _contribution(self, accumulator: Accumulator, rows: Changes) -> Column:
        """What one occurrence of each row contributes."""
        if accumulator.arg is None:
            return Column(np.ones(len(rows), np.int64))
        column = rows.columns[accumulator.arg]
        if accumulator.kind is AccumulatorKind.COUNT:
            return Column(column.valid_mask().astype(np.int64))
        if accumulator.kind is AccumulatorKind.SUM:
            return Column(column.codes, None, column.high)
        if accumulator.kind is AccumulatorKind.SQUARE:
            return Column(square_low(column.codes))
        if accumulator.kind is AccumulatorKind.SQUARE_HIGH:
            return Column(square_high(column.codes))
        return column

    def _combined(self, contributions: Changes) -> Changes:
        """One contribution of weight 1 for each group and values; those that contribute nothing are dropped."""
        keys = [contributions.columns[k] for k in self._keys]
        words = key_words(keys, self._key_types, len(contributions), nullable=self._nullable)
        table = GroupTable(key_width(self._key_types, self._nullable), self._sums)
        first = len(self._group)
        table.add(words, contributions.weights, *stack(contributions.columns[first : first + self._sums]))
        ids = table.index.live_ids()
        sums = table.sums(ids)
        something = sums.any(axis=(0, 1))
        if not something.all():
            ids, sums = ids[something], sums[:, :, something]
        key_columns = words_to_columns(table.index.keys[ids], self._key_types, nullable=self._nullable)
        columns = (
            *key_columns[:first],
            *(wide_column(np.ascontiguousarray(s[LOW]), np.ascontiguousarray(s[HIGH])) for s in sums),
            *key_columns[first:],
        )
        return Changes(columns, np.ones(len(ids), np.int64))

    def contents(self) -> Changes:
        raise TypeError("a pre-aggregation keeps no state to make contents from")

    def export(self, slots: Bool) -> list[pa.RecordBatch]:
        return []

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Nothing to load."""

    def drop(self, slots: Bool) -> None:
        """Nothing to drop."""

    def live_text(self) -> list[Int64]:
        return []

    def memory_bytes(self) -> int:
        return 0
