"""What other threads see of the manager: the committed epoch, its end, and who waits for either."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from vms.errors import InternalError, StoreError, VmsError
from vms.maintenance.record import ReadPoint
from vms.manager.following import Readable
from vms.manager.subscriptions import Subscriptions


class Audience:
    """Written by the manager's thread, read by all. `hurry` makes the manager issue an epoch at once."""

    def __init__(self, hurry: Callable[[], None]) -> None:
        self._hurry = hurry
        self.readable = Readable(ReadPoint(), 0, {}, {})
        #: Bytes by operation, of the members here.
        self.memory: Mapping[str, int] = {}
        #: What ended the manager, where it did not end by itself.
        self.failure: BaseException | None = None
        self.ended = False
        self._changed = threading.Condition()
        self.subscriptions = Subscriptions(self._changed)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """What changes in the block may be what somebody waits for: all look again."""
        with self._changed:
            yield
            self._changed.notify_all()

    def wait(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Until `done` holds after some commit. Epochs are issued without delay meanwhile."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not done():
                self.check()
                self._hurry()
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(0.05 if left is None else min(left, 0.05))
        self.check()
        return True

    def end(self) -> None:
        """Nothing more will come."""
        with self.changing():
            self.ended = True
        self.subscriptions.end(self.error() if self.failure is not None else None)

    def check(self) -> None:
        """Raises where nothing more will come."""
        error = self.error()
        if error is not None:
            raise error from self.failure

    def error(self) -> VmsError | None:
        """What ended the maintenance."""
        failure = self.failure
        if failure is None:
            return StoreError("the database was closed; open it again") if self.ended else None
        kind = StoreError if isinstance(failure, StoreError) else InternalError
        text = str(failure) if isinstance(failure, VmsError) else repr(failure)
        return kind(f"the views are not followed any more: {text}; close the database and open it again")
