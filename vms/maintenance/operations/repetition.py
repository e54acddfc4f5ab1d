"""Repetition: every row as often as an expression over it says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vms.maintenance.expressions import Evaluator
from vms.maintenance.expressions.failures import FailedRows
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.types import SqlType
from vms.plan.plan import Node, Repetition


class RepetitionOperation(FailedRows):
    """Linear: each weight is multiplied by the row's number of times; rows with none are not emitted.

    A row for which the expression fails is not emitted but counted.
    """

    def __init__(self, node: Node, input_types: Sequence[SqlType], pool: TextPool) -> None:
        if not isinstance(node.spec, Repetition):
            raise TypeError(f"node {node.id} is no repetition")
        super().__init__(input_types, pool)
        self._times = Evaluator([node.spec.times], pool)

    def step(self, inputs: Sequence[Changes]) -> Changes:
        changes = inputs[0]
        result = self._times.evaluate(changes)
        self.count(changes, result)
        times = result.columns[0].codes  # the code of a NULL is 0
        if result.failed is not None:
            times = np.where(result.failed, 0, times)
        rows = np.flatnonzero(times)
        return Changes(changes.take(rows).columns, changes.weights[rows] * times[rows])
