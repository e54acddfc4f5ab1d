"""Where the time of an engine's steps goes: seconds of each operation, and of what lies between them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from vms.maintenance.engine import Engine
from vms.model.changes import RowChanges
from vms.plan.explain import describe_operation
from vms.plan.plan import MaintenancePlan

_REST = "the rest: wiring, exchanges, view rows"


class Breakdown:
    """An engine whose operations are timed, at about a microsecond for each of them and step."""

    def __init__(self, engine: Engine, plan: MaintenancePlan) -> None:
        self._engine = engine
        self._total = 0.0
        self._seconds: dict[str, float] = {}
        engine.step({})  # from here on every operation is there
        names = {n.id: describe_operation(plan, n) for n in plan.nodes}
        for id_, operation in engine.operations().items():
            self._time(operation, names.get(id_, f"DeltaView of {id_.removeprefix('table:')}"))

    def step(self, sources: Mapping[str, RowChanges]) -> object:
        start = time.thread_time()
        views = self._engine.step(sources)
        self._total += time.thread_time() - start
        return views

    def shares(self) -> dict[str, float]:
        """The share of each operation in the time of all steps, the largest first."""
        parts = {**self._seconds, _REST: self._total - sum(self._seconds.values())}
        ordered = sorted(parts.items(), key=lambda part: -part[1])
        return {name: round(seconds / self._total, 4) for name, seconds in ordered if self._total}

    def _time(self, operation: Any, name: str) -> None:
        self._seconds.setdefault(name, 0.0)
        step = operation.step

        def timed(*args: Any) -> Any:
            start = time.thread_time()
            result = step(*args)
            self._seconds[name] += time.thread_time() - start
            return result

        operation.step = timed
