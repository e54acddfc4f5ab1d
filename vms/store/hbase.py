"""HBase as a key-value store, through its Thrift gateway (version 1, happybase).

What Thrift 1 lacks, and what is done about it:
- One call has one timestamp. A mutation with several becomes several calls, the newest timestamp first, so that
  a reader in between sees new values beside old ones that are about to vanish, and never a row that is gone. A
  row changes atomically only where all of its cells have one timestamp and one kind.
- Deletes of one version, settings of families, namespaces and splits go through the Java helper (hbase_admin.py).
- No sequence ids: `mutate` names no positions. A writer's token on HBase is made of timestamps.
- A scan is at one instant within a region, not over all of them. Read below a timestamp that nobody writes at
  any more, and it is: that is how views are read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from vms.errors import AlreadyExists, InvalidValue, StoreError, StoreUnavailable, TableMissing
from vms.store import hbase_commands as commands
from vms.store.base import DELETE_ROW, DELETE_VERSION, PUT, Cell, Family, Mutation, Region, Row, Version
from vms.store.hbase_address import HBaseAddress
from vms.store.hbase_admin import HBaseAdmin
from vms.store.hbase_scan import HBaseScan
from vms.store.regions import TableState, check_table_name
from vms.store.thrift import BatchMutation, Change, Gateway

#: The table of `meta_get` and its kin.
META_TABLE = "vms.meta"
_META_COLUMN = b"m:v"
#: Rows, and bytes of values, that go into one call. Not higher: a call is held in memory three times (here, in the
#: gateway, in the region server). Not lower: a call costs about a millisecond.
_CALL_ROWS = 5_000
_CALL_BYTES = 4 << 20
#: A column that nobody writes, and a value that it never has: for `settle`.
_NOBODYS, _NEVER = b"_vms_settle", b"never"
#: Rows that are settled at once. Not higher: the gateway has a thread for each call.
_SETTLERS = 8
#: Rows that are asked for at once: their cells, in an answer of one piece, must stay bearable.
_GET_ROWS = 500
_MAX_VERSIONS = (1 << 31) - 1
#: How long the first call may take: long enough for a gateway that is starting, short enough for a wrong address.
_FIRST_PATIENCE = 10.0


class HBaseStore:
    """`KVStore` on a running HBase. Close it, to end its connections and the Java helper."""

    def __init__(self, address: HBaseAddress, *, timeout: float = 120.0, patience: float = 60.0) -> None:
        """`timeout`: seconds for one answer; `patience`: seconds for which a gateway that is away is waited for."""
        self.address = address
        self.admin = HBaseAdmin(address)
        self._gateway = Gateway(address.host, address.port, timeout=timeout, patience=patience)
        #: Families of tables that were used: what is not allowed is refused before anything is written.
        self._known: dict[str, TableState] = {}
        self._gateway.call(lambda client: client.getTableNames(), patience=min(patience, _FIRST_PATIENCE))

    # --- tables --------------------------------------------------------------------------------------------------

    def create_table(
        self, name: str, families: Mapping[str, Family], splits: Sequence[bytes] = (), *, stream: bool = False
    ) -> None:
        """With `stream`, its families are in the scope of replication: HBase ships their changes to its peers."""
        TableState.new(0, name, families, stream)
        if len({b"", *splits}) != len(splits) + 1:
            raise InvalidValue(f"the split keys of table {name} must be distinct and not empty")
        settings = {f: commands.family_settings(s, replicated=stream) for f, s in families.items()}
        self.admin.run(commands.create_table(name, settings, sorted(splits)))
        self._known.pop(name, None)

    def drop_table(self, name: str) -> None:
        self._table(name, fresh=True)
        table = name.encode()
        if self._gateway.call(lambda client: client.isTableEnabled(table)):
            self._gateway.call(lambda client: client.disableTable(table))
        self._gateway.call(lambda client: client.deleteTable(table))
        self._known.pop(name, None)

    def tables(self) -> list[str]:
        names = self._gateway.call(lambda client: client.getTableNames())
        return sorted(name.decode() for name in names)

    def regions(self, table: str) -> list[Region]:
        found = self._gateway.call(lambda client: client.getTableRegions(table.encode()))
        if not found:
            raise TableMissing(f"HBase has no table {table}")
        regions = [Region(_encoded_name(r.name), table, r.startKey, r.endKey) for r in found]
        return sorted(regions, key=lambda region: region.start)

    def split(self, table: str, key: bytes) -> None:
        if any(region.start == key for region in self.regions(table)):
            raise InvalidValue(f"table {table} cannot be split at {key!r}: a region begins there")
        self.admin.run(commands.split(table, key))

    def _table(self, name: str, *, fresh: bool = False) -> TableState:
        if fresh or name not in self._known:
            check_table_name(name)
            found = self._gateway.call(lambda client: client.getColumnDescriptors(name.encode()))
            self._known[name] = TableState.new(0, name, {f.decode().rstrip(":"): Family() for f in found}, False)
        return self._known[name]

    # --- writes --------------------------------------------------------------------------------------------------

    def mutate(self, table: str, mutations: Sequence[Mutation]) -> dict[str, int]:
        if not mutations:
            return {}
        self._check(table, mutations)
        try:
            for wave in _waves(mutations):
                special = [m for m in wave if any(cell.kind == DELETE_VERSION for cell in m.cells)]
                if special:
                    self.admin.run(commands.mutate(table, special))
                    wave = [m for m in wave if not any(cell.kind == DELETE_VERSION for cell in m.cells)]
                for ts, rows in _by_timestamp(wave):
                    self._send(table, rows, ts)
        except (StoreError, StoreUnavailable):
            self._table(table, fresh=True)  # says so where the table is not there any more
            raise
        return {}

    def _check(self, table: str, mutations: Sequence[Mutation]) -> None:
        """What HBase would refuse is refused before anything is written."""
        known = table in self._known
        try:
            self._table(table).check(mutations)
        except StoreError:
            if not known:
                raise
            self._table(table, fresh=True).check(mutations)

    def _send(self, table: str, rows: list[BatchMutation], ts: int) -> None:
        name = table.encode()
        for part in _calls(rows):
            self._gateway.call(partial(_mutate_rows, name, part, ts))

    # --- reads ---------------------------------------------------------------------------------------------------

    def get(
        self, table: str, row: bytes, *, columns: Sequence[bytes] | None = None, before: int | None = None
    ) -> Row | None:
        name, wanted = table.encode(), None if columns is None else list(columns)
        if before is None:
            found = self._gateway.call(lambda client: client.getRowWithColumns(name, row, wanted, {}))
        else:
            found = self._gateway.call(lambda client: client.getRowWithColumnsTs(name, row, wanted, before, {}))
        return to_row(found[0].columns) if found else None

    def settle(self, table: str, rows: Sequence[bytes]) -> None:
        """Wait until all that the WAL has told of these rows can be read.

        HBase ships an entry as soon as it is in the log, and shows it to readers a moment later: its writer holds
        the row's lock until then. A check-and-put waits for that lock; this one never matches, so it writes nothing.
        """
        column = min(self._table(table).families) + _NOBODYS
        change = Change(column=column, value=_NEVER)
        calls = [partial(_check_and_put, table.encode(), row, column, change) for row in rows]
        if len(calls) == 1:
            self._gateway.call(calls[0])
        elif calls:
            with ThreadPoolExecutor(min(_SETTLERS, len(calls))) as pool:
                list(pool.map(self._gateway.call, calls))

    def get_many(self, table: str, rows: Sequence[bytes]) -> list[Row | None]:
        name, found = table.encode(), {}
        for start in range(0, len(rows), _GET_ROWS):
            part = list(rows[start : start + _GET_ROWS])
            for one in self._gateway.call(partial(_get_rows, name, part)):
                found[one.row] = to_row(one.columns)
        return [found.get(row) for row in rows]

    def versions(
        self, table: str, row: bytes, column: bytes, *, before: int | None = None, limit: int = _MAX_VERSIONS
    ) -> list[Version]:
        name, limit = table.encode(), min(limit, _MAX_VERSIONS)
        if before is None:
            found = self._gateway.call(lambda client: client.getVer(name, row, column, limit, {}))
        else:
            found = self._gateway.call(lambda client: client.getVerTs(name, row, column, before, limit, {}))
        return [Version(cell.value, cell.timestamp) for cell in found]

    def scan(
        self,
        table: str,
        start: bytes = b"",
        stop: bytes = b"",
        *,
        columns: Sequence[bytes] | None = None,
        before: int | None = None,
    ) -> Iterator[tuple[bytes, Row]]:
        return HBaseScan(self._gateway, table, start, stop, columns, before)

    def snapshot(self, table: str) -> LiveTable:
        """The table as it is while it is read; HBase tells no positions."""
        self._table(table, fresh=True)
        return LiveTable(self, table)

    # --- a few small values --------------------------------------------------------------------------------------

    def meta_get(self, key: str) -> bytes | None:
        """A value that `meta_put` or `meta_cas` has kept."""
        raw = self._meta_raw(key)
        return raw[1:] if raw else None

    def meta_put(self, key: str, value: bytes | None) -> None:
        """Keep a value, whatever is there; None removes it."""
        while not self._meta_replace(key, self._meta_raw(key), value):
            pass

    def meta_cas(self, key: str, expected: bytes | None, value: bytes) -> bool:
        """Replace the value if it still is `expected` (None: nothing); durable before it returns."""
        raw = self._meta_raw(key)
        return (raw[1:] if raw else None) == expected and self._meta_replace(key, raw, value)

    def _meta_raw(self, key: str) -> bytes | None:
        """What the cell holds: a byte and the value, or nothing for one that was removed.

        It is never deleted: a delete would hide a put of the same millisecond that comes after it.
        """
        try:
            found = self.get(META_TABLE, key.encode(), columns=[_META_COLUMN])
        except TableMissing:
            with contextlib.suppress(AlreadyExists):  # another manager that starts now was faster
                self.create_table(META_TABLE, {"m": Family()})
            return None
        return found[_META_COLUMN].value if found else None

    def _meta_replace(self, key: str, raw: bytes | None, value: bytes | None) -> bool:
        new = b"" if value is None else b"=" + value
        change = Change(column=_META_COLUMN, value=new)
        name, row = META_TABLE.encode(), key.encode()
        try:
            return self._gateway.call(
                lambda client: client.checkAndPut(name, row, _META_COLUMN, raw, change, {}), again=False
            )
        except StoreUnavailable:
            # the answer is lost: what is there tells whether it was done
            return raw != new and self._meta_raw(key) == new

    def close(self) -> None:
        self.admin.close()
        self._gateway.close()


class LiveTable:
    """A `Snapshot` of a table that is read while it changes."""

    def __init__(self, store: HBaseStore, table: str) -> None:
        self._store, self._table = store, table
        self.positions: Mapping[str, int] = {}

    def scan(self, start: bytes = b"", stop: bytes = b"") -> Iterator[tuple[bytes, Row]]:
        return self._store.scan(self._table, start, stop)

    def close(self) -> None:
        pass


def _get_rows(table: bytes, rows: list[bytes], client: Any) -> list[Any]:
    return client.getRows(table, rows, {})


def _mutate_rows(table: bytes, rows: list[BatchMutation], ts: int, client: Any) -> None:
    client.mutateRowsTs(table, rows, ts, {})


def _check_and_put(table: bytes, row: bytes, column: bytes, change: Change, client: Any) -> None:
    client.checkAndPut(table, row, column, _NEVER, change, {})


def to_row(columns: Mapping[bytes, Any]) -> Row:
    """A row as the gateway gives it."""
    return {column: Version(cell.value, cell.timestamp) for column, cell in columns.items()}


def _encoded_name(region: bytes) -> str:
    """Of `table,start,time.ENCODED.`"""
    return region[:-1].rpartition(b".")[2].decode()


def _waves(mutations: Sequence[Mutation]) -> list[list[Mutation]]:
    """Mutations such that no row comes twice in one part: parts that go one after the other keep a row's order."""
    if len({row for row, _ in mutations}) == len(mutations):
        return [list(mutations)]
    turn: dict[bytes, int] = {}
    waves: list[list[Mutation]] = []
    for mutation in mutations:
        number = turn.get(mutation.row, 0)
        turn[mutation.row] = number + 1
        if number == len(waves):
            waves.append([])
        waves[number].append(mutation)
    return waves


def _by_timestamp(mutations: Sequence[Mutation]) -> list[tuple[int, list[BatchMutation]]]:
    """One list of rows for each timestamp, the newest first."""
    found: dict[int, list[BatchMutation]] = {}
    for row, cells in mutations:
        parts: dict[int, list[Change]] = {}
        for cell in cells:
            parts.setdefault(cell.ts, []).append(_change(cell))
        for ts, changes in parts.items():
            found.setdefault(ts, []).append(BatchMutation(row, changes))
    return sorted(found.items(), key=lambda one: -one[0])


def _change(cell: Cell) -> Change:
    if cell.kind == PUT:
        return Change(False, cell.column, cell.value)
    # a family without its colon: with it, the column of that family that has no name
    return Change(True, cell.column[:-1] if cell.kind == DELETE_ROW else cell.column)


def _calls(rows: list[BatchMutation]) -> Iterator[list[BatchMutation]]:
    """The rows in calls of a bearable size."""
    start, size = 0, 0
    for end, row in enumerate(rows):
        size += sum(len(change.value or b"") + 40 for change in row.mutations)
        if size > _CALL_BYTES or end + 1 - start == _CALL_ROWS:
            yield rows[start : end + 1]
            start, size = end + 1, 0
    if start < len(rows):
        yield rows[start:]
