"""A scan through the Thrift gateway that goes on where it was when its connection breaks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import happybase

from vms.errors import InvalidValue, StoreError, TableMissing
from vms.store.base import Row, Version
from vms.store.thrift import BrokenConnection, Gateway, TScan

META = "hbase:meta"
#: Rows of the first fetch, and of any; bytes that a fetch aims at. Not higher: a fetch is a list of Python objects.
_FIRST_ROWS = 200
_MOST_ROWS = 5_000
_FETCH_BYTES = 4 << 20
#: How often a scan is opened again without a row in between.
_TRIES = 4


class HBaseScan:
    """Rows in key order. The first are fetched at once, so that a missing table is told by whoever asks for a scan.

    A scanner is a number in the memory of a gateway, and a gateway that was restarted gives the same number to
    somebody else: so a scan keeps its connection, and one that broke is never used with an old number.
    """

    def __init__(
        self,
        gateway: Gateway,
        table: str,
        start: bytes,
        stop: bytes,
        columns: Sequence[bytes] | None,
        before: int | None,
    ) -> None:
        self._gateway, self._table, self._next, self._stop = gateway, table.encode(), start, stop
        self._columns, self._before = None if columns is None else list(columns), before
        self._connection: happybase.Connection | None = None
        self._scanner: int | None = None
        self._rows: list[Any] = []
        self._position = 0
        self._limit = _FIRST_ROWS
        # the rows of hbase:meta are in an order of their own: HBase alone can tell whether that range is empty
        self._ended = bool(stop) and stop <= start and table != META
        if not self._ended:
            self._fetch()

    def __iter__(self) -> HBaseScan:
        return self

    def __next__(self) -> tuple[bytes, Row]:
        if self._position == len(self._rows):
            if self._ended:
                raise StopIteration
            self._fetch()
            if not self._rows:
                raise StopIteration
        found = self._rows[self._position]
        self._position += 1
        return found.row, {column: Version(cell.value, cell.timestamp) for column, cell in found.columns.items()}

    def close(self) -> None:
        """Let go of the gateway's scanner; harmless twice."""
        connection, self._connection, self._ended = self._connection, None, True
        if connection is not None:
            try:
                self._gateway.ask(connection, lambda client: client.scannerClose(self._scanner))
            except (StoreError, InvalidValue, BrokenConnection):
                return  # it was gone already
            self._gateway.give_back(connection)

    def __del__(self) -> None:
        if getattr(self, "_connection", None) is not None:
            self.close()

    def _fetch(self) -> None:
        """The next rows; an empty list at the end."""
        self._rows, self._position = [], 0
        asked = self._limit
        rows = self._ask()
        if len(rows) < asked:
            self.close()
        if not rows:
            return
        self._rows, self._next = rows, rows[-1].row + b"\0"
        size = sum(len(cell.value) + 40 for row in rows[:100] for cell in row.columns.values()) / len(rows[:100])
        self._limit = max(1, min(_MOST_ROWS, int(_FETCH_BYTES / max(size, 1))))

    def _ask(self) -> list[Any]:
        tries = 0
        while True:
            try:
                connection = self._open()
                return self._gateway.ask(connection, lambda client: client.scannerGetList(self._scanner, self._limit))
            except TableMissing:
                self._connection = None
                raise
            except (BrokenConnection, InvalidValue, StoreError) as error:
                # broken, expired, or the region is on its way to another server: on from the last row
                self._connection = None
                tries += 1
                if tries == _TRIES:
                    raise (error.unavailable if isinstance(error, BrokenConnection) else error) from error
            except BaseException:
                self._connection = None
                raise

    def _open(self) -> happybase.Connection:
        if self._connection is None:
            connection = self._gateway.lease()
            scan = TScan(self._next, self._stop or None, self._before, self._columns, caching=1000)
            self._scanner = self._gateway.ask(connection, lambda c: c.scannerOpenWithScan(self._table, scan, {}))
            self._connection = connection
        return self._connection
