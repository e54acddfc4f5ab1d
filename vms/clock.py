"""A hybrid-logical clock in milliseconds: follows the wall, never goes back, also over restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Clock:
    """Strictly increasing stamps for writers and epochs. Thread-safe.

    `reserve(t)` is called before any stamp at or above the last reserved time is handed out and must make `t`
    durable; started with that `t`, the clock cannot repeat itself after a crash or a step back of the wall.
    """

    #: How far ahead a reservation reaches. Not lower, or reserving would cost a durable write too often; not
    #: higher, because stamps after a restart may lie this far in the future: a process takes about as long to
    #: start, so that even one that dies again and again does not run away from the wall.
    AHEAD_MS = 1_000

    def __init__(
        self, reserved: int = 0, reserve: Callable[[int], None] | None = None, wall: Callable[[], int] = wall_ms
    ) -> None:
        self._last, self._reserved = reserved, reserved
        self._reserve, self._wall = reserve, wall
        self._lock = threading.Lock()

    def now(self) -> int:
        """At least the wall's time and every stamp handed out before."""
        with self._lock:
            return max(self._wall(), self._last)

    def stamps(self, count: int, step: int = 2) -> int:
        """The first of `count` fresh stamps that lie `step` apart."""
        with self._lock:
            first = max(self._wall(), self._last + step)
            self._last = first + (count - 1) * step
            if self._reserve is not None and self._last >= self._reserved:
                self._reserved = self._last + self.AHEAD_MS
                self._reserve(self._reserved)
            return first
