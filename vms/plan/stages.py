"""A plan in stages: how it runs over a whole data set, part by part (design section 10).

Stage 0 takes any piece of any table: sources, and the linear operations right above them. Every later stage is
run once for each part of the slots, over all that the stages before it send to the part. A row crosses into a
part by the same slots by which it would travel to a member of the ring.
"""

from __future__ import annotations

from dataclasses import dataclass

from vms.plan.plan import Exchange, MaintenancePlan, PreAggregation, Projection, Repetition, Selection, Source, Union

#: What stage 0 may do with a piece of a table that has rows of all slots.
_LINEAR = (Selection, Projection, PreAggregation, Repetition, Union)


@dataclass(frozen=True)
class Crossing:
    """The rows of one node on their way to a later stage.

    `key`: the columns whose slot decides where a row goes; None: it stays in its part; `everywhere`: to all parts.
    """

    node: str
    key: tuple[int, ...] | None
    everywhere: bool = False


class Stages:
    """The stages of one plan: the nodes of each, and what it sends on."""

    def __init__(self, plan: MaintenancePlan) -> None:
        self.plan = plan
        self._nodes = {n.id: n for n in plan.nodes}
        #: The stage in which the rows of each node are there: for an exchange the one that receives them.
        self.of_node: dict[str, int] = {}
        for n in plan.nodes:
            inputs = [self.of_node[i] for i in n.inputs]
            if isinstance(n.spec, Source):
                stage = 0
            elif isinstance(n.spec, Exchange):
                stage = inputs[0] + 1
            elif isinstance(n.spec, _LINEAR):
                stage = max(inputs)
            else:
                stage = max(1, *inputs)
            self.of_node[n.id] = stage
        self.last = max(self.of_node.values())
        self.crossings = [self._crossings(stage) for stage in range(self.last + 1)]

    def nodes(self, stage: int) -> list[str]:
        """The operations that a stage runs, in order."""
        return [n.id for n in self.plan.nodes if self.of_node[n.id] == stage and not isinstance(n.spec, Exchange)]

    def _crossings(self, stage: int) -> list[Crossing]:
        """What leaves the stage: rows that are exchanged, and rows that only a later stage needs."""
        found = []
        for n in self.plan.nodes:
            there = self.of_node[n.id]
            if isinstance(n.spec, Exchange) and there == stage + 1:
                found.append(Crossing(n.id, n.spec.key, n.spec.everywhere))
            elif there <= stage < self._last_use(n.id) and (there == stage or stage > 0):
                found.append(Crossing(n.id, self._where(n.id) if stage == 0 else None))
        return found

    def _last_use(self, id_: str) -> int:
        """The last stage that has the rows of this node as its input."""
        users = [n for n in self.plan.nodes if id_ in n.inputs]
        return max((self.of_node[n.id] - isinstance(n.spec, Exchange) for n in users), default=0)

    def _where(self, id_: str) -> tuple[int, ...]:
        """By what the rows of a piece of a table are spread; where nothing says it, no operation asks for it."""
        distribution = self._nodes[id_].distribution
        return tuple(range(len(self._nodes[id_].fields))) if distribution is None else distribution
