"""Settles tables with before-images: goes by the images of their changes, and forgets what else is held of them.

A step is possible when the stream has passed what came without images, or what was read of the tables. It is taken
in the catalog, so it is a step of all managers at one epoch (vms/maintenance/operations/row_images.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from vms.errors import VmsError
from vms.manager.coordination import Coordination
from vms.manager.following import Following

#: Between two looks at the catalog. Not lower, because each asks ZooKeeper; not higher, because until a table is
#: settled its rows are held in memory.
_SECONDS = 2.0


def settle(
    coordination: Coordination, runtime: Following, pass_now: Callable[[], bool], stop: threading.Event | None = None
) -> None:
    """Until every table with images is settled; `pass_now` waits until all that was written before is committed."""
    while stop is None or not stop.is_set():
        generation = runtime.readable.point.generation
        waiting = [t for t in coordination.catalog().tables.values() if t.images not in (None, generation)]
        if not waiting:
            return
        if not pass_now():
            continue
        before = after = coordination.catalog()
        for table in waiting:
            if after.tables.get(table.name) == table:
                after = after.with_images(table.name, 0 if table.images == -1 else generation)
        version = before.version + 1
        coordination.change_catalog(before, replace(after, version=version))
        runtime.wait(lambda version=version: runtime.readable.point.catalog >= version)  # type: ignore[misc]


class Settler:
    """A thread beside a View Manager that does it, whoever attached a table or made its views anew.

    Several of a cluster do no harm: the catalog is changed by compare-and-set.
    """

    def __init__(self, settle_all: Callable[[threading.Event], None]) -> None:
        self._settle_all = settle_all
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vms-settler", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_SECONDS):
            try:
                self._settle_all(self._stop)
            except VmsError:
                continue  # the store is away, or somebody else changed the catalog: look again

    def close(self) -> None:
        """Let the thread end; it may be in the middle of a wait, which ends with the manager."""
        self._stop.set()
