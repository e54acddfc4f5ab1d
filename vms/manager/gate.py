"""A gate before the writes of one process: closed, those that come wait, and those under way are finished."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Any number pass at a time while it is open."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._passing, self._closed = 0, False

    @contextmanager
    def passing(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._passing += 1
        try:
            yield
        finally:
            with self._changed:
                self._passing -= 1
                self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Nobody passes meanwhile. One at a time closes it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._closed)
            self._closed = True
            self._changed.wait_for(lambda: not self._passing)
        try:
            yield
        finally:
            with self._changed:
                self._closed = False
                self._changed.notify_all()
