"""Union: the rows of several inputs as one multiset (UNION ALL)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from vms.model.changes import Bool, Changes, Int64
from vms.plan.plan import Node, Union


class UnionOperation:
    """Stateless and linear in each input. Rows stay apart even where they are equal."""

    def __init__(self, node: Node) -> None:
        if not isinstance(node.spec, Union):
            raise TypeError(f"node {node.id} is no union")
        self._width = len(node.fields)

    def step(self, inputs: Sequence[Changes]) -> Changes:
        return Changes.concat(inputs, self._width)

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
