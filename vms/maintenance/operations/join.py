"""The inner equi-join (thesis 4.4, eq. 4.4.5; design section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vms.kernels.join_index import LEFT, RIGHT, JoinIndex
from vms.kernels.keys import key_width
from vms.maintenance.operations.reverse_join import ReverseJoin
from vms.model.changes import Changes, Int64
from vms.model.text import TextPool
from vms.model.types import SqlType
from vms.plan.plan import Join, Node


class JoinOperation(ReverseJoin):
    """Emits all columns of the left input, then of the right; the weight is the product of both.

    Both sides may change in one step: dA x B_old, then A += dA, then A_new x dB, then B += dB. What is
    emitted is not consolidated: a row may occur several times. Rows with a NULL in their join key match
    nothing and are not kept. `residual` keeps those rows of a batch for which the rest of the join condition
    is true.
    """

    def __init__(
        self,
        node: Node,
        left_types: Sequence[SqlType],
        right_types: Sequence[SqlType],
        pool: TextPool,
        residual: Callable[[Changes], Changes] | None = None,
    ) -> None:
        if not isinstance(node.spec, Join):
            raise TypeError(f"node {node.id} is no join")
        self._residual = residual
        key_types = [left_types[k] for k in node.spec.left_keys]
        index = JoinIndex(
            key_width(key_types, nullable=False),
            (key_width(left_types, nullable=True), key_width(right_types, nullable=True)),
        )
        super().__init__(node, left_types, right_types, pool, index)
        self._width = len(left_types) + len(right_types)

    def step(self, inputs: Sequence[Changes]) -> Changes:
        joined, touched = [], []
        for side, changes in ((LEFT, inputs[LEFT]), (RIGHT, self._right(inputs[RIGHT]))):
            rows = self._with_key(side, changes)
            if len(rows):
                keys = self._enter(side, rows)
                joined.append(self._matches(side, rows, keys))
                self._add(side, keys, rows)
                touched.append(keys)
        if touched:
            self._index.release(np.concatenate(touched))
        return self._filtered(Changes.concat(joined, self._width))

    def contents(self) -> Changes:
        rows = self._rows(LEFT, self._index.row_ids(LEFT))
        keys = self._index.find(self._key_words(LEFT, rows))
        return self._filtered(self._matches(LEFT, rows, keys))

    def _matches(self, side: int, rows: Changes, key_ids: Int64) -> Changes:
        """`rows` of one side joined with what is kept of the other."""
        other = RIGHT - side
        positions, found = self._index.probe(other, key_ids)
        if not len(found):
            return Changes.empty(self._width)
        ours, theirs = rows.take(positions), self._rows(other, found)
        halves = (ours, theirs) if side == LEFT else (theirs, ours)
        return Changes(halves[LEFT].columns + halves[RIGHT].columns, ours.weights * theirs.weights)

    def _filtered(self, joined: Changes) -> Changes:
        return joined if self._residual is None else self._residual(joined)
