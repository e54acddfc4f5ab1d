"""The connection to ZooKeeper: its state said plainly, its errors as ours, values cached until they change.

| state | what its holder may assume |
|---|---|
| CONNECTED | what it holds in ZooKeeper is there, and seen by everybody |
| SUSPENDED | nothing: the session may have expired meanwhile. Nothing is written until it is CONNECTED again |
| LOST | everything that hung on the session is gone: others may hold it already. Begin anew |

LOST is seen as a new `incarnation`, because the connection comes back by itself, with a new session.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from vms.errors import StoreError, StoreUnavailable

#: Seconds after which ZooKeeper takes a silent manager for dead. Not higher, or its members would wait that long
#: for a new home; not lower, or a long pause of a healthy process would cost it its members.
SESSION_SECONDS = 10.0
_UNAVAILABLE = (
    ConnectionLoss,
    ConnectionClosedError,
    SessionExpiredError,
    OperationTimeoutError,
    KazooTimeoutError,
)
_LOG = logging.getLogger("vms.ring.zookeeper")
_LOG.addHandler(logging.NullHandler())


class State(Enum):
    """See the module docstring."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


@dataclass(eq=False)
class _Held:
    """A value that was read; `stale` as soon as it may be another."""

    value: Any = None
    stale: bool = False

    def expire(self, _: object = None) -> None:
        self.stale = True


class Session:
    """One connection below a path of our own. Safe to use from several threads."""

    def __init__(self, hosts: str, root: str = "/vms", *, seconds: float = SESSION_SECONDS) -> None:
        self.hosts, self.root, self._patience = hosts, root, seconds
        self.state = State.SUSPENDED
        #: How often a session was lost.
        self.incarnation = 0
        self._cache: dict[tuple[str, str], _Held] = {}
        self._listeners: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self.client = KazooClient(hosts + root, timeout=seconds, logger=_LOG)
        self.client.add_listener(self._state_changed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the root is not there yet
                self.client.start(timeout=max(seconds, 15))
        except KazooTimeoutError:
            self.close()
            raise StoreUnavailable(f"ZooKeeper at {hosts} does not answer: start it, or give its HOST:PORT") from None
        with self.errors():
            self.client.ensure_path("/")

    def close(self) -> None:
        """End the session: what hangs on it is gone at once."""
        self.client.stop()
        self.client.close()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call it, in another thread, when the state or any value that was read has changed."""
        self._listeners.append(listener)

    def _state_changed(self, state: str) -> None:
        """In the thread of the connection: nothing here may wait for ZooKeeper."""
        if state == KazooState.LOST:
            self.incarnation += 1
        known = {KazooState.CONNECTED: State.CONNECTED, KazooState.LOST: State.LOST}
        self.state = known.get(state, State.SUSPENDED)
        with self._lock:
            for held in self._cache.values():
                held.expire()
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """ZooKeeper's errors as ours."""
        try:
            yield
        except _UNAVAILABLE as error:
            why = str(error) or type(error).__name__
            raise StoreUnavailable(f"ZooKeeper at {self.hosts} cannot be reached ({why})") from error
        except (NoAuthError, AuthFailedError) as error:
            raise StoreError(f"ZooKeeper at {self.hosts} does not let us use {self.root}: check its ACLs") from error
        except KazooException as error:
            raise StoreError(f"ZooKeeper at {self.hosts} failed: {type(error).__name__} {error}") from error

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """One operation, with a deadline. `NodeExistsError` and `NoNodeError` are for the caller."""
        if self.state is not State.CONNECTED:
            raise StoreUnavailable(f"ZooKeeper at {self.hosts} cannot be reached")
        return getattr(self.client, f"{name}_async")(*arguments, **options).get(timeout=self._patience)

    def commit(self, change: Any) -> list[Any]:
        """Carry out a transaction, with a deadline: its results, exceptions where it was not carried out."""
        if self.state is not State.CONNECTED:
            raise StoreUnavailable(f"ZooKeeper at {self.hosts} cannot be reached")
        return change.commit_async().get(timeout=self._patience)

    # --- values that are read again and again ----------------------------------------------------------------

    def read(self, path: str) -> tuple[bytes, int] | None:
        """Data and version of a node, None if it is not there. The last known while ZooKeeper is away."""

        def get(watch: Callable[[object], None]) -> tuple[bytes, int] | None:
            try:
                data, stat = self.call("get", path, watch=watch)
            except NoNodeError:
                return None if self.call("exists", path, watch=watch) is None else get(watch)
            return data, stat.version

        return self._cached("data", path, get)

    def children(self, path: str) -> list[str]:
        """Names below a node that exists, in order."""
        return self._cached("children", path, lambda watch: sorted(self.call("get_children", path, watch=watch)))

    def forget(self, path: str) -> None:
        """We changed it ourselves: the next read sees that."""
        with self._lock:
            for kind in ("data", "children"):
                self._cache.pop((kind, path), None)

    def _cached(self, kind: str, path: str, get: Callable[[Callable[[object], None]], Any]) -> Any:
        with self._lock:
            held = self._cache.get((kind, path))
        if held is not None and (not held.stale or self.state is not State.CONNECTED):
            return held.value
        fresh = _Held()

        def expire(_: object) -> None:
            fresh.expire()
            self._notify()

        with self.errors():
            fresh.value = get(expire)
        with self._lock:
            self._cache[kind, path] = fresh
        return fresh.value


__all__ = ["SESSION_SECONDS", "BadVersionError", "NoNodeError", "NodeExistsError", "Session", "State"]
