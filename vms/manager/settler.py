"""Settles tables with before-images in the background, whoever attached them or made their views anew."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from vms.errors import VmsError

if TYPE_CHECKING:
    from vms.manager.database import Database

#: Between two looks at the catalog. Not lower, because each asks ZooKeeper; not higher, because until a table is
#: settled its rows are held in memory.
_SECONDS = 2.0


class Settler:
    """A thread beside a View Manager. Several of a cluster do no harm: the catalog is changed by compare-and-set."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vms-settler", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_SECONDS):
            try:
                self._db.settle_images(self._stop)
            except VmsError:
                continue  # the store is away, or somebody else changed the catalog: look again

    def close(self) -> None:
        """Let the thread end; it may be in the middle of a wait, which ends with the manager."""
        self._stop.set()
