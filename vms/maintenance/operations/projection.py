"""Projection: one expression for each output column."""

from __future__ import annotations

from collections.abc import Sequence

from vms.maintenance.expressions import Evaluator
from vms.maintenance.expressions.failures import FailedRows
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.types import SqlType
from vms.plan.plan import Node, Projection


class ProjectionOperation(FailedRows):
    """Linear. Rows stay apart even where they become equal. Columns that are only passed on are not copied.

    A row for which an expression fails is not emitted but counted.
    """

    def __init__(self, node: Node, input_types: Sequence[SqlType], pool: TextPool) -> None:
        if not isinstance(node.spec, Projection):
            raise TypeError(f"node {node.id} is no projection")
        super().__init__(input_types, pool)
        self._exprs = Evaluator(node.spec.exprs, pool)

    def step(self, inputs: Sequence[Changes]) -> Changes:
        changes = inputs[0]
        result = self._exprs.evaluate(changes)
        self.count(changes, result)
        projected = Changes(result.columns, changes.weights)
        return projected if result.failed is None else projected.take(~result.failed)
