"""The Thrift gateway of HBase: pooled connections that come back, and its errors as ours.

A gateway drops a connection that is silent for a minute, and all of them when it restarts. So a call whose
connection breaks is made again on a new one, for as long as `patience` lasts. That needs calls that may be made
twice: reads, and writes of cells with explicit timestamps, which HBase holds once however often they arrive.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import happybase  # makes the module Hbase_thrift
from Hbase_thrift import AlreadyExists as ThriftAlreadyExists
from Hbase_thrift import BatchMutation, IllegalArgument, TScan
from Hbase_thrift import IOError as HBaseError
from Hbase_thrift import Mutation as Change
from thriftpy2.thrift import TApplicationException, TException

from vms.errors import AlreadyExists, InvalidValue, StoreError, StoreUnavailable
from vms.store.hbase_admin import error_of

Answer = TypeVar("Answer")

#: Seconds for which a connection may be silent. Not higher, because the gateway drops it after 60.
_IDLE_SECONDS = 45.0
#: Connections that wait for the next call. More calls at once open more, and close them again.
_KEPT = 8
#: Between two attempts to connect.
_PAUSE_SECONDS = 0.2
_JAVA_CLASS = re.compile(r"(?:\w+\.)+\w+(?:Exception|Error)\b")
_HBASE_ERRORS = (HBaseError, IllegalArgument, ThriftAlreadyExists)


class BrokenConnection(Exception):
    """A connection broke before the answer was there. `unavailable` is the error for whoever cannot ask again."""

    def __init__(self, unavailable: StoreUnavailable) -> None:
        super().__init__(str(unavailable))
        self.unavailable = unavailable


class Gateway:
    """Calls to one Thrift gateway. Safe to use from several threads: each call has a connection to itself."""

    def __init__(self, host: str, port: int, *, timeout: float = 120.0, patience: float = 60.0) -> None:
        self.host, self.port = host, port
        self._timeout, self._patience = timeout, patience
        self._lock = threading.Lock()
        self._idle: list[tuple[float, happybase.Connection]] = []
        self._closed = False

    def call(self, make: Callable[[Any], Answer], *, again: bool = True, patience: float | None = None) -> Answer:
        """What `make` gives when called with a Thrift client; `again`: whether it may be called twice.

        Raises StoreUnavailable when there was no answer, and StoreError (or a child of it) when the answer was
        an error. After StoreUnavailable a write may have happened or not.
        """
        deadline = time.monotonic() + (self._patience if patience is None else patience)
        while True:
            connection = self.lease(deadline)
            try:
                answer = self.ask(connection, make)
            except BrokenConnection as error:
                if not again or time.monotonic() > deadline:
                    raise error.unavailable from error
            else:
                self.give_back(connection)
                return answer

    def ask(self, connection: happybase.Connection, make: Callable[[Any], Answer]) -> Answer:
        """One call on a leased connection. A connection that broke is closed; after an error it is given back."""
        try:
            return make(connection.client)
        except _HBASE_ERRORS as error:
            self.give_back(connection)
            raise translated(error) from error
        except TApplicationException as error:
            connection.close()
            raise StoreError(f"the Thrift gateway of HBase failed: {_text(error.message)}") from error
        except (OSError, EOFError, TException) as error:
            connection.close()
            raise BrokenConnection(self._unavailable(error)) from error
        except BaseException:
            connection.close()  # interrupted in the middle of an answer
            raise

    def close(self) -> None:
        """Close every connection; calls after that are refused."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def lease(self, deadline: float | None = None) -> happybase.Connection:
        """A connection that was used lately, or a new one, for the caller alone: give it back, or close it."""
        if deadline is None:
            deadline = time.monotonic() + self._patience
        with self._lock:
            if self._closed:
                raise StoreError(f"the store at {self.host}:{self.port} is closed")
            fresh = time.monotonic() - _IDLE_SECONDS
            stale = [connection for used, connection in self._idle if used < fresh]
            self._idle = [(used, connection) for used, connection in self._idle if used >= fresh]
            found = self._idle.pop()[1] if self._idle else None
        for connection in stale:
            connection.close()
        while found is None:
            try:
                found = happybase.Connection(self.host, self.port, timeout=int(self._timeout * 1000))
            except (OSError, TException) as error:
                if time.monotonic() > deadline:
                    raise self._unavailable(error) from error
                time.sleep(_PAUSE_SECONDS)
        return found

    def give_back(self, connection: happybase.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _KEPT:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        what = getattr(error, "message", None) or str(error) or type(error).__name__
        return StoreUnavailable(
            f"the Thrift gateway of HBase at {self.host}:{self.port} did not answer ({_text(what)}); does it run?"
        )


def translated(error: Exception) -> Exception:
    """Our error for one that the gateway sent: its text begins as a Java stack trace does."""
    message = _text(getattr(error, "message", "") or str(error))
    if isinstance(error, ThriftAlreadyExists):
        return AlreadyExists(f"HBase already has it: {message}")
    if isinstance(error, IllegalArgument):
        return InvalidValue(f"HBase refused it: {message}")
    line = message.partition("\n")[0]
    causes = _JAVA_CLASS.findall(line) or [type(error).__name__]
    # "gave up after n attempts" wraps what went wrong, where that is known
    kind = next((name for name in reversed(causes) if "RetriesExhausted" not in name), causes[-1])
    return error_of(kind, line.rpartition(kind)[2].lstrip(": ") or line)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


__all__ = ["BatchMutation", "BrokenConnection", "Change", "Gateway", "TScan", "translated"]
