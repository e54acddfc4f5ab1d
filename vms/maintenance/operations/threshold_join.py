"""Semi, anti and mark joins that a bound decides (design section 4: only rows between the old and the new one)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vms.kernels import wide
from vms.kernels.join_index import LEFT, RIGHT, JoinIndex
from vms.kernels.keys import KeyIndex, fit, key_width, key_words, words_to_columns
from vms.kernels.ordered import Bounds, OrderedGroups
from vms.maintenance.expressions.logic import double_order
from vms.maintenance.operations.reverse_join import ReverseJoin
from vms.model.changes import Bool, Changes, Column, Int64
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType
from vms.plan.plan import Join, JoinKind, Node
from vms.plan.thresholds import threshold

_TESTS = {"lt": np.less, "lte": np.less_equal, "gt": np.greater, "gte": np.greater_equal}


class ThresholdJoinOperation(ReverseJoin):
    """Left rows match where their column is on the right side of the bound of their key.

    The left rows of a key are in the order of the column: `_ordered` has the values of each key, `_index` the rows
    under key and value. A bound that moves visits the rows between its old and its new place and emits those, each
    as it was and as it is. Of the right side nothing is kept but the bound of each key. A NULL on either side
    matches nothing. What is emitted is not consolidated.
    """

    def __init__(
        self, node: Node, left_types: Sequence[SqlType], right_types: Sequence[SqlType], pool: TextPool
    ) -> None:
        found = threshold(node.spec, len(left_types)) if isinstance(node.spec, Join) else None
        if not isinstance(node.spec, Join) or found is None:
            raise TypeError(f"node {node.id} is no join that a bound decides")
        self._column, self._bound_column = found.column, found.bound
        self._test, self._type = _TESTS[found.operator], left_types[found.column]
        #: Where no bound is, it is where no row matches; and whether rows match below it or above it.
        self._below = found.operator in ("lt", "lte")
        self._none = -1 if self._below else 1
        #: Whether a row at the bound is on the side of the smaller rows.
        self._after = found.operator in ("lte", "gt")
        key_types = [left_types[k] for k in node.spec.left_keys]
        self._groups = KeyIndex(key_width(key_types, nullable=False))
        self._bounds = np.zeros((self._groups.capacity, 2), np.int64)
        self._bounded: Bool = np.zeros(self._groups.capacity, np.bool_)
        self._counts = np.zeros(self._groups.capacity, np.int64)
        self._ordered = OrderedGroups(self._type, pool)
        #: How many values were looked at because bounds moved.
        self.visited = 0
        self._width = len(node.fields)
        self._index_width = self._groups.width + key_width([self._type], nullable=False) + 1
        index = JoinIndex(self._index_width, (key_width(left_types, nullable=True), 1))
        super().__init__(node, left_types, right_types, pool, index)

    def step(self, inputs: Sequence[Changes]) -> Changes:
        emitted = [*self._change_right(inputs[RIGHT]), *self._change_left(inputs[LEFT])]
        return Changes.concat(emitted, self._width)

    def contents(self) -> Changes:
        return Changes.concat(self._shown(self._held(LEFT)), self._width)

    def memory_bytes(self) -> int:
        arrays = (self._bounds, self._bounded, self._counts)
        indexes = self._index.memory_bytes() + self._ordered.memory_bytes() + self._groups.memory_bytes()
        return indexes + sum(a.nbytes for a in arrays)

    def _merge(self, side: int, rows: Changes) -> None:
        change = self._change_left if side == LEFT else self._change_right
        change(rows)

    def _held(self, side: int) -> Changes:
        if side == LEFT:
            return super()._held(LEFT)
        groups = np.flatnonzero(self._bounded)
        keys = words_to_columns(self._groups.keys[groups], self._key_types, nullable=False)
        columns = dict(zip(self._keys[RIGHT], keys))
        columns[self._bound_column] = self._bound_values(groups)
        return Changes(tuple(columns[i] for i in range(len(self._types[RIGHT]))), np.ones(len(groups), np.int64))

    # --- left rows -------------------------------------------------------------------------------------------

    def _change_left(self, rows: Changes) -> list[Changes]:
        """Add left rows; what they are shown as."""
        if not len(rows):
            return []
        near, alone = self._parted(rows)
        groups, values = self._enter_groups(LEFT, near), near.columns[self._column]
        emitted = [self._shown_left(near, self._matched(groups, values)), *self._unmatched(alone)]
        self._keep(near, self._words(self._groups.keys[groups], values))
        if self._kind is not JoinKind.SEMI and len(alone):
            self._keep(alone, np.full((len(alone), self._index_width), -1, np.int64))
        self._ordered.add(groups, values, near.weights)
        np.add.at(self._counts, groups, near.weights)
        self._release(groups)
        return emitted

    def _shown(self, rows: Changes) -> list[Changes]:
        """Rows that are held, as they are shown."""
        near, alone = self._parted(rows)
        groups = self._groups.lookup(self._key_words(LEFT, near))
        matched = self._matched(groups, near.columns[self._column])
        return [self._shown_left(near, matched), *self._unmatched(alone)]

    def _parted(self, rows: Changes) -> tuple[Changes, Changes]:
        """The rows that may match something, and those with a NULL, which match nothing."""
        comparable = self._comparable(rows)
        return rows.where(comparable), rows.where(~comparable)

    def _unmatched(self, rows: Changes) -> list[Changes]:
        return [self._shown_left(rows, np.zeros(len(rows), np.bool_))] if len(rows) else []

    def _comparable(self, rows: Changes) -> Bool:
        """The rows without a NULL in key and column."""
        mask = np.ones(len(rows), np.bool_)
        for c in (*self._keys[LEFT], self._column):
            valid = rows.columns[c].valid
            if valid is not None:
                mask &= valid
        return mask

    def _keep(self, rows: Changes, words: Int64) -> None:
        keys = self._index.enter(words)
        self._add(LEFT, keys, rows)
        self._index.release(keys)

    def _words(self, key_words_: Int64, values: Column) -> Int64:
        """The words under which rows of these keys and values are found; the last one is 0, else -1."""
        words = np.zeros((len(values), self._index_width), np.int64)
        words[:, : self._groups.width] = key_words_
        words[:, self._groups.width : -1] = key_words(
            [Column(values.codes, None, values.high)], [self._type], len(values), nullable=False
        )
        return words

    # --- bounds ----------------------------------------------------------------------------------------------

    def _change_right(self, rows: Changes) -> list[Changes]:
        """Move bounds; the rows that this turns, as they were and as they are."""
        rows = self._with_key(RIGHT, self._condensed(rows)) if len(rows) else rows
        if not len(rows):
            return []
        groups = self._enter_groups(RIGHT, rows)
        touched = np.unique(groups)
        before = self._as_bounds(touched)
        self._set_bounds(touched, groups, rows)
        now = self._as_bounds(touched)
        emitted = [self._turned(touched, before, now, up=True), self._turned(touched, now, before, up=False)]
        self._release(touched)
        return emitted

    def _set_bounds(self, touched: Int64, groups: Int64, rows: Changes) -> None:
        self._bounded[touched] = False
        bound = rows.columns[self._bound_column]
        stands = np.flatnonzero((rows.weights > 0) & bound.valid_mask())
        at, values = groups[stands], bound.take(stands)
        self._bounds[at, 0], self._bounds[at, 1] = values.codes, values.high_words()
        self._bounded[at] = True

    def _bound_values(self, groups: Int64) -> Column:
        codes, high = self._bounds[groups, 0], self._bounds[groups, 1]
        return Column(codes, None, high if self._type.wide and (high != codes >> 63).any() else None)

    def _as_bounds(self, groups: Int64) -> Bounds:
        values = self._bound_values(groups)
        known = Column(values.codes, self._bounded[groups], values.high)
        return self._ordered.bounds(known, np.full(len(groups), self._none))

    def _turned(self, groups: Int64, low: Bounds, high: Bounds, *, up: bool) -> Changes:
        """The rows between two bounds (none where low is not below high), which moved `up` or down over them."""
        at, values, visited = self._ordered.between(groups, low, high, after=self._after)
        self.visited += visited
        if not len(at):
            return Changes.empty(self._width)
        keys = self._index.find(self._words(self._groups.keys[groups[at]], values))
        _, ids = self._index.probe(LEFT, keys)
        rows = self._rows(LEFT, ids)
        matched = np.full(len(rows), up == self._below)
        gone = Changes(rows.columns, -rows.weights)
        shown = [self._shown_left(gone, ~matched), self._shown_left(rows, matched)]
        return Changes.concat(shown, len(shown[0].columns))

    def _matched(self, groups: Int64, values: Column) -> Bool:
        bounds = self._bound_values(groups)
        if self._type.kind is Kind.DOUBLE:
            true = self._test(double_order(values.codes), double_order(bounds.codes))
        elif values.high is not None or bounds.high is not None:
            a, b = ((c.high_words(), c.codes) for c in (values, bounds))
            true = self._test(wide.compare(a, b), 0)
        else:
            true = self._test(values.codes, bounds.codes)
        return true & self._bounded[groups]

    # --- keys ------------------------------------------------------------------------------------------------

    def _enter_groups(self, side: int, rows: Changes) -> Int64:
        groups, fresh = self._groups.upsert(self._key_words(side, rows))
        capacity = self._groups.capacity
        self._bounds, self._counts = fit(self._bounds, capacity), fit(self._counts, capacity)
        self._bounded = fit(self._bounded, capacity)
        self._bounded[fresh], self._counts[fresh] = False, 0
        return groups

    def _release(self, groups: Int64) -> None:
        """Forget those of these keys that have neither rows nor a bound."""
        groups = np.unique(groups)
        self._groups.remove(groups[(self._counts[groups] == 0) & ~self._bounded[groups]])
        if self._groups.wants_compaction():
            before = self._groups.compact()
            self._bounds = fit(self._bounds[before], self._groups.capacity)
            self._bounded = fit(self._bounded[before], self._groups.capacity)
            self._counts = fit(self._counts[before], self._groups.capacity)
            self._ordered.renumber(before)
