"""Marks: small puts that we send through HBase's own stream, to learn how far it has come.

A region server has one write-ahead log, and ships it in batches, the next one only when every entry of the last is
acknowledged. So, with a mark in the log of a region server:

- when it arrives, the batches before its own are acknowledged; its own need not be, as its entries travel at once;
- when a second mark arrives that was written after the first had come, the first one's batch is acknowledged too:
  all that was in this log before the first mark.

The marks of a server lie in a region that it serves, of a table that holds nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from vms.kernels.cell_block import VALUE_AT, VALUE_LEN
from vms.stream.hbase_batch import WalBatch

#: How often `wait` looks whether waiting still makes sense.
_LOOK_SECONDS = 0.5


class MarkBoard:
    """Where marks are seen that have come. Safe to use from several threads."""

    def __init__(self, table: str) -> None:
        self.table = table
        self._changed = threading.Condition()
        self._awaited: dict[bytes, bool] = {}

    def expect(self, marks: Collection[bytes]) -> None:
        """Before they are written: only marks that somebody expects are kept."""
        with self._changed:
            self._awaited.update(dict.fromkeys(marks, False))

    def arrived(self, batch: WalBatch) -> None:
        """Entries of the table of marks came."""
        values = [batch.cells.bytes_at(VALUE_AT, VALUE_LEN, i) for i in range(batch.mutations)]
        with self._changed:
            self._awaited.update({v: True for v in values if v in self._awaited})
            self._changed.notify_all()

    def seen(self, marks: Collection[bytes]) -> list[bytes]:
        """Those of the marks that have come here; they are forgotten."""
        with self._changed:
            return [mark for mark in marks if self._awaited.get(mark) and self._awaited.pop(mark)]

    def wait(self, marks: Collection[bytes], deadline: float, broken: Callable[[], bool]) -> bool:
        """Whether all of them came before the deadline (of time.monotonic), and before `broken` held."""
        with self._changed:
            try:
                while not all(self._awaited[mark] for mark in marks):
                    left = deadline - time.monotonic()
                    if left <= 0 or broken():
                        return False
                    self._changed.wait(min(left, _LOOK_SECONDS))
                return True
            finally:
                for mark in marks:
                    self._awaited.pop(mark, None)
