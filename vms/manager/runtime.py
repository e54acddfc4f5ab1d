"""The View Manager's loop: a thread that steps epochs on, and what other threads may ask of it (design section 8).

One process with one or several members, and the leader beside them where this process leads. What lies outside is
behind `Neighbours`: nothing for a process alone, ZooKeeper and gRPC for one of many. Other threads talk to the loop by
the store, the record and `wake`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from vms.errors import StoreUnavailable, VmsError
from vms.maintenance.record import Record
from vms.manager.audience import Audience
from vms.manager.coordination import Coordination
from vms.manager.epochs import Epochs
from vms.manager.following import Facts, Readable
from vms.manager.log import TransactionLog
from vms.manager.neighbours import Alone, Neighbours
from vms.manager.pace import Pace
from vms.manager.subscriptions import Watcher
from vms.model.token import Token
from vms.store.base import ManagedStore
from vms.stream.base import Source

_LOG = logging.getLogger("vms.manager")
#: Seconds that a stop waits for the epoch under way, where other processes have to do their part of it.
_STOP_SECONDS = 10.0
#: Seconds between two looks at a store or ZooKeeper that did not answer.
_AGAIN_SECONDS = 0.5


class SessionLost(Exception):
    """What is hosted here may be hosted by somebody else: nothing more is written for it."""


class Runtime:
    """One View Manager process over a store, its change stream, and what a cluster shares."""

    def __init__(
        self,
        store: ManagedStore,
        source: Source,
        coordination: Coordination,
        log: TransactionLog | None,
        *,
        members: Sequence[str] = ("m1",),
        neighbours: Neighbours | None = None,
        epoch_interval: float = 0.1,
        now_ms: Callable[[], int],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """`members`: of the first ring, where this process is alone. `on_end`: called when the loop has ended."""
        self.store, self.source, self.coordination = store, source, coordination
        self._on_end = on_end
        self._news = threading.Event()
        self._stop = False
        #: Whether the last step ended in the middle: readers may not have been told of the last commit.
        self._doubtful = False
        if neighbours is None and coordination.newest_ring() == 0:
            coordination.add_ring(list(members))
        self.neighbours = neighbours or Alone(coordination)
        self._incarnation = self.neighbours.incarnation()
        self._pace, self._audience = Pace(epoch_interval), Audience(lambda: self.wake(hurry=True))
        self.epochs = Epochs(
            store,
            source,
            coordination,
            log,
            self.neighbours,
            self._pace,
            self._audience,
            now_ms=now_ms,
            still_here=self._still_here,
        )
        self.programs, self.dead, self.traces = self.epochs.programs, self.epochs.dead, self.epochs.traces
        self.members, self.warnings = self.epochs.members, self.epochs.warnings
        self.neighbours.on_news(self.look)
        self._thread = threading.Thread(target=self._loop, name="vms-manager", daemon=True)

    def start(self) -> None:
        self._thread.start()

    # --- for other threads -----------------------------------------------------------------------------------

    @property
    def record(self) -> Record:
        """As this process knows it."""
        return self.epochs.record

    @property
    def rebuilding(self) -> str | None:
        """Why the views are being made anew from the base tables; None: they are not."""
        return self.epochs.rebuilding

    @property
    def readable(self) -> Readable:
        return self._audience.readable

    @property
    def memory(self) -> Mapping[str, int]:
        return self._audience.memory

    def wait(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Until `done` holds after some commit. Epochs are issued without delay meanwhile."""
        return self._audience.wait(done, timeout)

    def wake(self, *, hurry: bool = False) -> None:
        """Something changed: look at once; in a `hurry`, issue an epoch at once too."""
        if hurry:
            self._pace.hurry()
        self.look()

    def look(self) -> None:
        """There may be something to do."""
        self._news.set()
        self.source.wake()

    def watch(self, watcher: Watcher) -> None:
        """Tell it of every epoch that a read from now on does not hold yet."""
        self._audience.subscriptions.add(watcher, self._audience.check)

    def unwatch(self, watcher: Watcher) -> None:
        self._audience.subscriptions.remove(watcher)

    def unhurried(self) -> AbstractContextManager[None]:
        """While it is open, epochs are issued more slowly: a long read is not overtaken by them."""
        return self._pace.unhurried()

    def rebuild(self, reason: str) -> None:
        """Make all views anew from their tables, in a new generation, and wait until they are there."""
        generation = self.readable.point.generation
        self.ask_rebuild(reason)
        self.wait(lambda: self.readable.point.generation > generation)

    def ask_rebuild(self, reason: str) -> None:
        self.epochs.rebuild_wanted = reason
        self.look()

    def facts(self) -> Facts:
        scanning = dict(self.epochs.performer.scanning)
        return Facts(self.source.lag().entries, self.rebuilding, list(self.warnings), scanning=scanning)

    def followed_rows(self, table: str) -> int | None:
        return self.members.followed_rows(table)

    @property
    def rows(self) -> int:
        """Source rows that were taken in here."""
        return self.epochs.intake.rows

    def covers(self, token: Token) -> bool:
        """Whether the committed epoch holds everything that the token names."""
        return self.epochs.intake.covers(token)

    def received(self) -> Token:
        """Everything that the source was told to forget so far."""
        return self.epochs.intake.received()

    def stop(self) -> None:
        """Finish the epoch under way, take a checkpoint if that pays, end the thread."""
        self._stop = True
        self.wake(hurry=True)
        if self._thread.is_alive():
            self._thread.join()
        for id_ in self.members.ids:
            self.members.drop(id_, checkpoint=self._audience.failure is None)
        self.neighbours.close()

    @property
    def failed(self) -> VmsError | None:
        """What ended the maintenance, if something did."""
        return self._audience.error() if self._audience.ended else None

    @property
    def drained(self) -> bool:
        """Whether it ended because its members went to others."""
        well = self._audience.ended and self._audience.failure is None
        return well and self.neighbours.finished(self.members.ids)

    # --- the loop --------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        try:
            while not self._may_stop():
                if not self._step():
                    self._rest()
        except BaseException as failure:
            self._audience.failure = failure
            _LOG.error("%s", self._audience.error(), exc_info=failure)
        self._audience.end()
        self._on_end()

    def _may_stop(self) -> bool:
        if self.neighbours.finished(self.members.ids):
            return True
        if not self._stop:
            return False
        others = not isinstance(self.neighbours, Alone)
        return self.record.committed or ((others or self._doubtful) and self._pace.since() > _STOP_SECONDS)

    def _step(self) -> bool:
        """A step, where this manager may act; what others are there for heals without us."""
        try:
            if not self._present():
                return False
            if self._doubtful and self.record.committed:
                self.epochs.publish()
                self.epochs.settle()
            self._doubtful = False
            return self.epochs.step()
        except SessionLost:
            return True
        except StoreUnavailable as error:
            self.epochs.warn(f"waiting: {error}")
            self._begin_anew()
            time.sleep(_AGAIN_SECONDS)
            return True

    def _present(self) -> bool:
        """Whether it may act; after a lost session it begins with nothing."""
        if not self.neighbours.present():
            return False
        if self.neighbours.incarnation() != self._incarnation:
            self.epochs.warn("the session with ZooKeeper was lost: the members here begin anew")
            self._begin_anew()
            self._incarnation = self.neighbours.incarnation()
        return True

    def _begin_anew(self) -> None:
        self.epochs.begin_anew()
        self._doubtful = True

    def _rest(self) -> None:
        """Until there may be something to do: within the interval, changes of the source do not count."""
        left = self._pace.left()
        if left > 0:
            self._news.wait(left)
        elif not self._news.is_set():
            self.source.wait(self._pace.interval)
        self._news.clear()

    def _still_here(self) -> None:
        """Before anything is written: one that is in doubt waits, one that lost its session stops."""
        while not self.neighbours.present():
            if self._stop:
                raise SessionLost
            self._news.wait(_AGAIN_SECONDS)
            self._news.clear()
        if self.neighbours.incarnation() != self._incarnation:
            raise SessionLost
