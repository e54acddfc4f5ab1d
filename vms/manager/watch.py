"""A subscription to the changes of a view (design section 6, reads)."""

from __future__ import annotations

import queue
import weakref
from collections.abc import Iterator

import pyarrow as pa

from vms.errors import VmsError
from vms.manager.following import Following
from vms.model.catalog import ViewDefinition


class _Inbox:
    """Where the manager puts what it has to tell. `None` or an error is the last thing in it."""

    def __init__(self, view: ViewDefinition) -> None:
        self.view, self.created = view.name, view.created
        self.items: queue.SimpleQueue[tuple[int, pa.Table] | VmsError | None] = queue.SimpleQueue()

    def changed(self, epoch: int, rows: pa.Table) -> None:
        self.items.put((epoch, rows))

    def end(self, failure: VmsError | None) -> None:
        self.items.put(failure)


class Watch(Iterator[tuple[int, pa.Table]]):
    """Each committed epoch that changes the view, in order and without a gap: its id and the changed rows.

    It begins when it is made: what is committed later comes, what was committed before is in every read. It ends
    when nothing came for `timeout` seconds, when the view is dropped, when the database is closed, or by `close`.
    """

    def __init__(self, runtime: Following, view: ViewDefinition, timeout: float | None) -> None:
        inbox = _Inbox(view)
        self._items, self._timeout = inbox.items, timeout
        runtime.watch(inbox)
        #: Runs also when the object is thrown away: nobody would empty the inbox any more.
        self._stop = weakref.finalize(self, runtime.unwatch, inbox)

    def __next__(self) -> tuple[int, pa.Table]:
        if not self._stop.alive:
            raise StopIteration
        try:
            item = self._items.get(timeout=self._timeout)
        except queue.Empty:
            item = None
        if isinstance(item, tuple):
            return item
        self.close()
        if item is None:
            raise StopIteration
        raise item

    def close(self) -> None:
        """Let nothing more come. Twice is fine."""
        self._stop()
