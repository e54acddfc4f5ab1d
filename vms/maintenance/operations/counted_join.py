"""Outer, semi, anti and mark joins: a row of a kept side is shown by how many rows match it (thesis 4.4).

| kind | a left row that matches something | a left row that matches nothing |
|---|---|---|
| LEFT, FULL | with each row that it matches | once, with NULLs (FULL: right rows too) |
| SEMI | once | not |
| ANTI | not | once |
| MARK | once, marked true | once, marked false |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vms.kernels.join_index import LEFT, RIGHT, JoinIndex, tally
from vms.kernels.keys import key_width, key_words
from vms.maintenance.expressions import Evaluator, true_rows
from vms.maintenance.expressions.failures import FailedRows
from vms.maintenance.operations.reverse_join import ReverseJoin
from vms.model.changes import Bool, Changes, Column, Int64
from vms.model.text import TextPool
from vms.model.types import SqlType
from vms.plan.expr import Expr, refs
from vms.plan.plan import Join, JoinKind, Node


class _Residual(FailedRows):
    """The rest of a join condition. Pairs for which it fails do not match and are counted."""

    def __init__(self, condition: Expr, types: Sequence[SqlType], pool: TextPool) -> None:
        #: The columns of a pair that the condition reads: the others need not be there.
        self.read = sorted(refs(condition))
        super().__init__([types[c] for c in self.read], pool)
        self._condition = Evaluator([condition], pool)

    def true(self, pairs: Changes, *, count: bool) -> Bool:
        """Which pairs match; with `count`, those for which the condition fails are counted."""
        result = self._condition.evaluate(pairs)
        if count:
            self.count(pairs.select(self.read), result)
        return true_rows(result)


@dataclass(slots=True)
class _Pairs:
    """Rows of a batch with the rows of the other side that match them."""

    positions: Int64
    found: Int64
    rows: Changes


class CountedJoinOperation(ReverseJoin):
    """Any join but the inner one. What is emitted is not consolidated: a row may occur several times.

    Both sides may change in one step: first the right one, against the left side as it was, then the left one.
    Each is a change of one side alone: its own rows are shown by what they match, and those rows of the other
    side change their place that match something now and did not before, or the reverse. Without a residual all
    rows under one key match or none, so a change that leaves the key with rows visits nothing else; with one,
    every kept row has a count of the pairs for which the residual is true.

    Rows of a kept side with a NULL in their key are part of the state and match nothing; those of the other
    side are not kept. Weights of both sides, summed up, are never negative between steps.
    """

    def __init__(
        self, node: Node, left_types: Sequence[SqlType], right_types: Sequence[SqlType], pool: TextPool
    ) -> None:
        if not isinstance(node.spec, Join) or node.spec.kind is JoinKind.INNER:
            raise TypeError(f"node {node.id} is no outer, semi, anti or mark join")
        residual = node.spec.residual
        self._width = len(node.fields)
        self._kept = (True, node.spec.kind is JoinKind.FULL)
        self._residual = None if residual is None else _Residual(residual, (*left_types, *right_types), pool)
        key_types = [left_types[k] for k in node.spec.left_keys]
        self._key_width = key_width(key_types, nullable=False) + 1
        index = JoinIndex(
            self._key_width,
            (key_width(left_types, nullable=True), key_width(right_types, nullable=True)),
            counted=residual is not None,
        )
        super().__init__(node, left_types, right_types, pool, index)

    @property
    def error_count(self) -> int:
        """How many pairs have the residual failed for that are still there."""
        return 0 if self._residual is None else self._residual.error_count

    @property
    def last_error(self) -> str | None:
        return None if self._residual is None else self._residual.last_error

    def step(self, inputs: Sequence[Changes]) -> Changes:
        emitted = [*self._change(RIGHT, self._right(inputs[RIGHT])), *self._change(LEFT, inputs[LEFT])]
        return Changes.concat(emitted, self._width)

    def contents(self) -> Changes:
        parts = []
        for side in (LEFT, RIGHT):
            if self._kept[side]:
                ids = self._index.row_ids(side)
                rows = self._rows(side, ids)
                keys = self._index.find(self._key_words(side, rows))
                if self._residual is None:
                    matched = self._index.has_rows(RIGHT - side, keys)
                else:
                    matched = self._index.matches(side, ids) != 0
                parts.append(self._shown(side, rows, matched))
                if side == LEFT and self._kind.pairs:
                    parts.append(self._pairs(LEFT, rows, keys, count=False).rows)
        return Changes.concat(parts, self._width)

    def _merge(self, side: int, rows: Changes) -> None:
        self._change(side, rows)

    def _change(self, side: int, rows: Changes) -> list[Changes]:
        """Add rows to one side; what that emits."""
        if not self._kept[side]:
            rows = self._with_key(side, rows)
        keys = self._enter(side, rows)
        change = self._change_by_key if self._residual is None else self._change_by_row
        emitted = change(side, rows, keys)
        self._index.release(keys)
        return emitted

    def _change_by_key(self, side: int, rows: Changes, keys: Int64) -> list[Changes]:
        other = RIGHT - side
        emitted = [self._pairs(side, rows, keys).rows] if self._kind.pairs else []
        if self._kept[side]:
            emitted.append(self._shown(side, rows, self._index.has_rows(other, keys)))
        before = self._index.has_rows(side, keys)
        self._add(side, keys, rows)
        if self._kept[other]:
            now = self._index.has_rows(side, keys)
            turned, first = np.unique(keys[before != now], return_index=True)
            positions, found = self._index.probe(other, turned)
            emitted += self._turned(other, found, now[before != now][first][positions])
        return emitted

    def _change_by_row(self, side: int, rows: Changes, keys: Int64) -> list[Changes]:
        other = RIGHT - side
        pairs = self._pairs(side, rows, keys)
        emitted = [pairs.rows] if self._kind.pairs else []
        if self._kept[other]:
            touched = np.unique(pairs.found)
            before = self._index.matches(other, touched) != 0
            self._index.add_matches(other, pairs.found, rows.weights[pairs.positions])
            now = self._index.matches(other, touched) != 0
            turned = before != now
            emitted += self._turned(other, touched[turned], now[turned])
        matches = tally(pairs.positions, self._index.weights(other, pairs.found), len(rows))
        if self._kept[side]:
            emitted.append(self._shown(side, rows, matches != 0))
        self._index.set_matches(side, self._add(side, keys, rows), matches)
        return emitted

    def _pairs(self, side: int, rows: Changes, key_ids: Int64, *, count: bool = True) -> _Pairs:
        """`rows` of one side with the rows of the other that match them."""
        other = RIGHT - side
        positions, found = self._index.probe(other, key_ids)
        ours, theirs = rows.take(positions), self._rows(other, found)
        halves = (ours, theirs) if side == LEFT else (theirs, ours)
        pairs = Changes(halves[LEFT].columns + halves[RIGHT].columns, ours.weights * theirs.weights)
        if self._residual is None:
            return _Pairs(positions, found, pairs)
        true = np.flatnonzero(self._residual.true(pairs, count=count))
        return _Pairs(positions[true], found[true], pairs.take(true))

    def _turned(self, side: int, ids: Int64, matched: Bool) -> list[Changes]:
        """Kept rows whose matches came (now matched) or went."""
        rows = self._rows(side, ids)
        gone = Changes(rows.columns, -rows.weights)
        return [self._shown(side, gone, ~matched), self._shown(side, rows, matched)]

    def _shown(self, side: int, rows: Changes, matched: Bool) -> Changes:
        """What kept rows are shown as, beside the pairs that they are part of."""
        if not self._kind.pairs:
            return self._shown_left(rows, matched)
        alone = rows.where(~matched)
        null = Column(np.zeros(len(alone), np.int64), np.zeros(len(alone), np.bool_))
        nulls = (null,) * len(self._types[RIGHT - side])
        columns = alone.columns + nulls if side == LEFT else nulls + alone.columns
        return Changes(columns, alone.weights)

    def _key_words(self, side: int, rows: Changes) -> Int64:
        """The last word is 0, or tells the side of rows with a NULL: these meet no row of the other side."""
        columns = [rows.columns[k] for k in self._keys[side]]
        words = np.zeros((len(rows), self._key_width), np.int64)
        words[:, :-1] = key_words(columns, self._key_types, len(rows), nullable=False)
        for column in columns:
            if column.valid is not None:
                words[~column.valid, -1] = 1 + side
        return words
