"""When the next epoch is issued."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Seconds between epochs while a read is under way that epochs had overtaken. Not higher, or one long read would make
#: every view stale; not lower, or it would be overtaken again.
_LONG_INTERVAL = 1.0


class Pace:
    """At each interval, at once for who waits, more slowly for a long read. Safe to use from several threads."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self._issued = 0.0
        self._hurry = threading.Event()
        self._lock = threading.Lock()
        #: Reads that epochs have overtaken, and that are tried again.
        self._unhurried = 0

    def hurry(self) -> None:
        """Somebody waits: the next epoch is due at once."""
        self._hurry.set()

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """While it is open, epochs are issued more slowly: a long read is not overtaken by them."""
        with self._lock:
            self._unhurried += 1
        try:
            yield
        finally:
            with self._lock:
                self._unhurried -= 1

    def issued(self) -> None:
        """An epoch is issued now."""
        self._issued = time.monotonic()

    def since(self) -> float:
        """Seconds since one was issued."""
        return time.monotonic() - self._issued

    def left(self) -> float:
        """Seconds until the next is due without a hurry; negative where it is."""
        return self._between() - self.since()

    def due(self, behind: bool) -> bool:
        """Whether to issue one now; `behind`: the source holds more than was taken in. A hurry is served with it."""
        hurry = self._hurry.is_set()
        self._hurry.clear()
        return self.left() <= 0 or (not self._unhurried and (hurry or behind))

    def _between(self) -> float:
        return max(self.interval, _LONG_INTERVAL) if self._unhurried else self.interval
