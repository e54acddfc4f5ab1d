"""HBase as the place of tables and views, with the View Managers in other processes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vms.clock import Clock
from vms.manager.control_client import ControlClient
from vms.manager.hbase_attachment import Attachments
from vms.manager.hbase_backend import HBaseBackend
from vms.manager.hbase_status import retained_logs
from vms.manager.remote import RemoteRuntime
from vms.ring.credentials import Credentials
from vms.ring.membership import SINGLE, Membership
from vms.ring.session import Session
from vms.ring.zookeeper import ZooKeeperCoordination
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress

if TYPE_CHECKING:
    from vms.manager.database import Database


class HBaseClient(HBaseBackend):
    """The same place without stream, log and manager."""

    def __init__(self, address: HBaseAddress) -> None:
        self.hbase, self.address = address, str(address)
        with contextlib.ExitStack() as undo:
            self.store = HBaseStore(address)
            undo.callback(self.store.close)
            self.session = Session(address.zookeeper_hosts, address.root)
            undo.callback(self.session.close)
            self._hbase = Session(address.zookeeper_hosts, address.znode)
            undo.callback(self._hbase.close)
            self.coordination = ZooKeeperCoordination(self.session)
            self.attachments = Attachments(self.session, self.store, address)
            self._guard = None
            self.clock, self.log = Clock(), None
            self._open = undo.pop_all()

    def started(self, runtime: object) -> None:
        """The managers run already, or not."""

    def status(self) -> dict[str, Any]:
        """`logs`: what HBase keeps for the managers."""
        state = self.attachments.state()
        return {"attached": sorted(state.tables), "logs": retained_logs(self._hbase, state.peer) if state.peer else []}


def managers_run(address: str) -> bool:
    """Whether there are View Managers that a client can ask."""
    place = HBaseAddress.parse(address)
    with contextlib.closing(Session(place.zookeeper_hosts, place.root)) as session:
        return any(id_ != SINGLE for id_ in Membership(session).managers())


def open_client(address: str, tls: str | Path | None) -> Database:
    """A database whose views are followed by other processes."""
    from vms.manager.database import Database

    backend = HBaseClient(HBaseAddress.parse(address))
    membership = Membership(backend.session)
    client = ControlClient(membership.secret(), Credentials.read(tls) if tls else None)
    return Database(backend, remote=RemoteRuntime(backend.store, backend.coordination, membership, client))
