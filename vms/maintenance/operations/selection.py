"""Selection: the rows for which a predicate is true."""

from __future__ import annotations

from collections.abc import Sequence

from vms.maintenance.expressions import Evaluator, true_rows
from vms.maintenance.expressions.failures import FailedRows
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.types import SqlType
from vms.plan.plan import Node, Selection


class SelectionOperation(FailedRows):
    """Linear: the change of the output is the selection of the change of the input.

    All conjuncts are evaluated over the whole batch: numpy compares a column faster than it gathers one.
    A row for which the predicate fails is not emitted but counted.
    """

    def __init__(self, node: Node, input_types: Sequence[SqlType], pool: TextPool) -> None:
        if not isinstance(node.spec, Selection):
            raise TypeError(f"node {node.id} is no selection")
        super().__init__(input_types, pool)
        self._predicate = Evaluator([node.spec.predicate], pool)

    def step(self, inputs: Sequence[Changes]) -> Changes:
        changes = inputs[0]
        result = self._predicate.evaluate(changes)
        self.count(changes, result)
        return changes.where(true_rows(result))
