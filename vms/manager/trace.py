"""Where the time of an epoch went, for the last epochs of this process: `vms trace EPOCH`."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Epochs that are remembered: a minute at ten epochs a second.
KEPT = 600


class Traces:
    """Seconds by epoch and activity. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._epochs: OrderedDict[int, dict[str, Any]] = OrderedDict()
        #: Seconds of each activity since the start.
        self.totals: dict[str, float] = {}

    @contextmanager
    def spent(self, epoch: int, activity: str) -> Iterator[None]:
        """The time that the block takes belongs to this epoch."""
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            with self._lock:
                found = self._of(epoch)["seconds"]
                found[activity] = found.get(activity, 0.0) + seconds
                self.totals[activity] = self.totals.get(activity, 0.0) + seconds

    def seen(self, epoch: int, what: str) -> None:
        """The epoch was `issued` or `committed`, as this process saw it; the first time counts."""
        with self._lock:
            self._of(epoch).setdefault(what, time.time())

    def took(self, epoch: int, rows: int) -> None:
        """So many source rows are in the cut of a member here."""
        with self._lock:
            self._of(epoch)["rows"] += rows

    def _of(self, epoch: int) -> dict[str, Any]:
        if epoch not in self._epochs:
            self._epochs[epoch] = {"epoch": epoch, "rows": 0, "seconds": {}}
            while len(self._epochs) > KEPT:
                self._epochs.popitem(last=False)
        return self._epochs[epoch]

    def get(self, epoch: int | None = None) -> dict[str, Any] | None:
        """Of this epoch, or of the last one that was committed."""
        with self._lock:
            if epoch is None:
                epoch = next((e for e in reversed(self._epochs) if "committed" in self._epochs[e]), None)
            found = self._epochs.get(epoch) if epoch is not None else None
            return None if found is None else {**found, "seconds": dict(found["seconds"])}
