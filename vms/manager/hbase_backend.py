"""HBase as the place of tables and views: `hbase:HOST:PORT[?...]` (docs/hbase.md).

| what | where |
|---|---|
| base tables and views | tables of HBase, through its Thrift gateway |
| the change stream | HBase's write-ahead log, as a replication peer |
| record, rings, catalogs, the attachment | ZooKeeper, below `root` |
| the transaction log and the clock | a folder of this machine |
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vms.clock import Clock
from vms.errors import AlreadyExists, Conflict, StoreError, UserError
from vms.manager.backend import disk_bytes, make_folder, open_log
from vms.manager.hbase_attachment import Attachments, marks_table, peer_name
from vms.manager.hbase_latest import Latest
from vms.manager.hbase_status import retained_logs
from vms.manager.log import TransactionLog
from vms.model.catalog import ViewDefinition
from vms.model.table import BaseTable
from vms.model.token import MOST_ROWS, Token
from vms.ring.membership import SINGLE, ManagerInfo, Membership, no_other
from vms.ring.peer import PeerServer, Presence
from vms.ring.session import SESSION_SECONDS, Session
from vms.ring.zookeeper import ZooKeeperCoordination
from vms.store import hbase_commands as commands
from vms.store.base import Family, Mutation
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress
from vms.store.hbase_follow import check_followable
from vms.stream.encode import RowEncoder
from vms.stream.hbase_marks import MarkBoard
from vms.stream.hbase_regions import RegionGuard
from vms.stream.hbase_source import HBaseSource
from vms.stream.rereads import Rereads

if TYPE_CHECKING:
    from vms.manager.everywhere import SharedBoard
    from vms.manager.runtime import Runtime

#: Between two looks whether ZooKeeper has forgotten a manager that died.
_PAUSE_SECONDS = 0.5


class HBaseBackend:
    """`Backend` on a running HBase, with the View Manager in this process.

    `folder`: for the log and the clock; one process at a time. `listen`: HOST or HOST:PORT where region servers
    reach this process; by default the address of this machine that HBase's gateway is reached from. `name` tells
    it from other managers of the same HBase; without one it is the only one.
    """

    has_images = True

    def __init__(
        self,
        address: HBaseAddress,
        *,
        folder: Path,
        log: str | TransactionLog | None,
        listen: str | None = None,
        name: str = "",
        session_seconds: float = SESSION_SECONDS,
    ) -> None:
        self.hbase = address
        self.address = str(address)
        self._folder = folder
        self._open = contextlib.ExitStack()
        with contextlib.ExitStack() as undo:
            make_folder(folder)
            undo.enter_context(_only_user(folder))
            self.store = HBaseStore(address)
            undo.callback(self.store.close)
            self.session = Session(address.zookeeper_hosts, address.root, seconds=session_seconds)
            undo.callback(self.session.close)
            if not name:
                info = ManagerInfo(SINGLE, f"{socket.gethostname()}:{os.getpid()}", log=socket.gethostname())
                self._alone = Membership(self.session), info
                self._join()
                undo.callback(Presence(self.session, self._join_again).close)
            self._hbase = Session(address.zookeeper_hosts, address.znode)
            undo.callback(self._hbase.close)
            self.coordination = ZooKeeperCoordination(self.session)
            self.attachments = Attachments(self.session, self.store, address)
            self.clock = _clock(folder / "clock")
            self.log = open_log(folder / "log", log) if isinstance(log, str) else log
            board = self.board = MarkBoard(marks_table(address))
            self.latest_of = Latest(self.store, self._hbase, peer_name(address), board)
            self._guard: RegionGuard | None = self.attachments.guard()
            host, port = _place(listen, address)
            self.wal = HBaseSource(self._guard, host=host, port=port, marks=board)
            undo.callback(self.wal.close)
            self.source = Rereads(self.wal, name)
            self._open = undo.pop_all()
        self._runtime: Runtime | None = None

    def _join(self) -> None:
        """Be the only View Manager of this VMS; one that died is forgotten with its session."""
        membership, info = self._alone
        deadline = time.monotonic() + 2 * SESSION_SECONDS
        while True:
            try:
                there = membership.managers()
                if there.keys() - {info.id}:
                    raise StoreError(no_other(there, info.id))
                self._joined = self.session.incarnation
                membership.join(info)
                return
            except Conflict:
                if time.monotonic() > deadline:
                    there = membership.managers()
                    where = f" ({there[info.id].address})" if info.id in there else ""
                    raise StoreError(f"the View Manager of {self.address} runs in another process{where}") from None
                time.sleep(_PAUSE_SECONDS)

    def _join_again(self) -> None:
        """After a lost session nobody knows of this manager."""
        membership, info = self._alone
        incarnation = self.session.incarnation
        if self._joined != incarnation:
            try:
                membership.join(info)
            except Conflict as problem:
                raise StoreError(str(problem)) from None
            self._joined = incarnation

    def started(self, runtime: Runtime) -> None:
        self._runtime = runtime
        server = PeerServer(self.session, *self.wal.address)
        self._open.callback(server.close)

    def share_marks(self, board: MarkBoard | SharedBoard) -> None:
        """Where this manager is one of several: marks may come to any of them."""
        self.latest_of = Latest(self.store, self._hbase, peer_name(self.hbase), board)

    # --- definitions -----------------------------------------------------------------------------------------

    def create_table(self, table: BaseTable) -> str:
        created = table.name not in self.store.tables()
        if created:
            self.store.create_table(table.name, {table.family: Family()}, stream=True)
        else:
            check_followable(table, self.store.admin.run(commands.describe_table(table.name)))
        if self.attachments.state().peer:
            self.attachments.attach([table], created=created)
            if self._guard is not None:
                self._guard.forget()
        return "" if created else "over HBase's table of that name, as it is"

    def attach_images(self, table: BaseTable, jar: str | None) -> None:
        self.attachments.attach_images(table, jar)

    def renew(self, tables: Sequence[BaseTable]) -> None:
        for table in tables:
            self.attachments.renew(table)
        if self._guard is not None:
            self._guard.forget()

    def drop_table(self, name: str) -> None:
        """An HBase table that was there before stays."""
        if self.attachments.detach_table(name):
            self.store.drop_table(name)

    def check_view(self, view: ViewDefinition, tables: Collection[str]) -> None:
        attached = self.attachments.state().tables
        missing = sorted(set(tables) - attached.keys())
        if missing:
            names = ", ".join(missing)
            raise UserError(
                f"HBase does not ship the changes of table {names}: run vms hbase attach, then create the view"
            )
        left = [t for t in self.store.tables() if t.startswith(f"{view.name}.{view.created}.")]
        if left:
            raise AlreadyExists(
                f"HBase has a table {left[0]} that this VMS did not make; drop it there, or choose another name"
            )

    # --- tokens ----------------------------------------------------------------------------------------------

    def encoder(self, table: BaseTable) -> RowEncoder:
        return RowEncoder(table, one_timestamp=True)

    def token(self, table: str, mutations: Sequence[Mutation], positions: Mapping[str, int]) -> Token:
        if len(mutations) > MOST_ROWS:
            return Token(everything=True)
        return Token(rows={table: frozenset(mutation.row for mutation in mutations)})

    def latest(self, tables: Sequence[str]) -> Token:
        return Token(everything=True)

    def resolve(self, token: Token, tables: Mapping[str, BaseTable]) -> Token:
        """Rows are read again by their owners, and what HBase had before now is waited for."""
        resolved = Token(token.positions)
        everything = token.everything
        for name, keys in token.rows.items():
            if name in tables and tables[name].imaged:
                everything = True  # such rows are not read again
            elif name in tables:
                region, seq = self.source.ask(tables[name], sorted(keys))
                resolved = resolved | Token({region: seq})
        if everything:
            assert self._runtime is not None
            self.latest_of.wait()
            resolved = resolved | self._runtime.received()
        return resolved

    # --- the rest --------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """`stream`: what HBase has delivered and is not in an epoch yet. `logs`: what HBase keeps for us."""
        lag, state = self.wal.lag(), self.attachments.state()
        return {
            "disk_bytes": disk_bytes(self._folder),
            "stream": {
                "entries": lag.entries,
                "bytes": lag.bytes,
                "oldest_ms": lag.oldest_ms,
                "received": self.wal.entries,
                "repeated": self.wal.repeated,
            },
            "attached": sorted(state.tables),
            "logs": retained_logs(self._hbase, state.peer) if state.peer else [],
        }

    def close(self) -> None:
        self._open.close()


def default_folder(address: HBaseAddress) -> Path:
    """One for each VMS of each HBase that this user manages from here."""
    home = os.environ.get("VMS_HOME")
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{address.zookeeper}{address.root}")
    return (Path(home) if home else Path.home() / ".vms") / name


def _place(listen: str | None, address: HBaseAddress) -> tuple[str, int]:
    """Where to listen."""
    if listen is None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing: it only picks a route
            probe.connect((address.host, address.port))
            return probe.getsockname()[0], 0
    host, colon, port = listen.rpartition(":")
    if not colon:
        return listen, 0
    if not host or not port.isdigit():
        raise UserError(f"listen {listen!r} is no place; write HOST or HOST:PORT, as in 10.0.0.7:16100")
    return host, int(port)


@contextlib.contextmanager
def _only_user(folder: Path) -> Any:
    """Keep other processes out of the folder."""
    file: IO[str] = (folder / "lock").open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"a View Manager uses the folder {folder} already; stop it, or choose another") from None
        yield


def _clock(path: Path) -> Clock:
    """A clock that keeps its reservations in a file."""

    def reserve(until: int) -> None:
        fresh = path.with_suffix(".new")
        with fresh.open("w") as file:
            file.write(str(until))
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)

    return Clock(int(path.read_text()) if path.exists() else 0, reserve)
