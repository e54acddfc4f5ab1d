"""Attaching to HBase: the replication peer, the tables that it ships, and where the stream of each begins.

What was done is kept in ZooKeeper, so that all of it can be undone:

    /vms/attachment      the peer, its tables, and of each: the floors of its regions (vms/stream/hbase_regions.py),
                         the families that were put into the scope of replication for us, whether the table is ours

The order matters: scope and peer first, then the floors. Whoever scans a table after that misses nothing, because
everything that is written later comes through the stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack

from vms.errors import Conflict, StoreError, TableMissing
from vms.model.catalog import Catalog
from vms.model.table import BaseTable
from vms.ring.peer import prepare_peer, remove_peer_nodes
from vms.ring.session import BadVersionError, NodeExistsError, NoNodeError, Session
from vms.ring.zookeeper import ZooKeeperCoordination
from vms.store import hbase_commands as commands
from vms.store.base import Family
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress
from vms.store.hbase_commands import Command
from vms.store.hbase_follow import check_followable, check_imageable
from vms.store.java import plugin_jar
from vms.stream.hbase_regions import Attachment, MetaRegion, RegionGuard, meta_range, read_meta

_LOG = logging.getLogger("vms.manager")
_NODE = "/attachment"
#: Every View Manager may take entries, not half of them as is HBase's default.
_PEER_SETTINGS = {"replication.source.ratio": "1.0"}
#: Regions of the table of marks for each region server, so that the balancer gives one to each mostly.
_MARKS_PER_SERVER = 4


@dataclass(frozen=True)
class Attached:
    """One table. `families`: those whose scope was set for us; `created`: the HBase table was made by us; `images`:
    it has the coprocessor that attaches before-images."""

    floors: Mapping[str, int]
    families: tuple[str, ...] = ()
    created: bool = False
    images: bool = False


@dataclass(frozen=True)
class AttachmentState:
    """What stands in ZooKeeper; no peer: nothing is attached."""

    peer: str = ""
    tables: Mapping[str, Attached] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        tables = {name: [dict(t.floors), list(t.families), t.created, t.images] for name, t in self.tables.items()}
        return msgpack.packb({"peer": self.peer, "tables": tables})

    @staticmethod
    def from_bytes(data: bytes) -> AttachmentState:
        d: dict[str, Any] = msgpack.unpackb(data)
        tables = {name: Attached(floors, tuple(fs), *rest) for name, (floors, fs, *rest) in d["tables"].items()}
        return AttachmentState(d["peer"], tables)


def peer_name(address: HBaseAddress) -> str:
    """The replication peer of the VMS at this address."""
    return address.root[1:]


def marks_table(address: HBaseAddress) -> str:
    return f"{peer_name(address)}.marks"


def attach_commands(
    address: HBaseAddress, tables: Sequence[BaseTable], imaged: Sequence[BaseTable] = (), jar: str | None = None
) -> list[Command]:
    """What `attach` does, for an operator who prefers to do it; and what loads the coprocessor for some of them."""
    path = _jar(jar) if imaged else ""
    return [
        _create_marks(address, 1),
        *(commands.alter_family(t.name, t.family, {"REPLICATION_SCOPE": "1"}) for t in tables),
        _add_peer(address, [t.name for t in tables]),
        *(_load_images(t, path) for t in imaged),
    ]


def detach_commands(address: HBaseAddress, state: AttachmentState) -> list[Command]:
    """What `detach` does; the peer first, so that HBase keeps no log for it."""
    changes = [
        commands.alter_family(name, family, {"REPLICATION_SCOPE": "0"})
        for name, table in state.tables.items()
        for family in table.families
    ]
    changes += [commands.detach_images(name) for name, table in state.tables.items() if table.images]
    return [commands.remove_peer(state.peer or peer_name(address)), *changes, commands.drop_table(marks_table(address))]


def _load_images(table: BaseTable, jar: str) -> Command:
    columns = [table.marker, *(table.qualifier(c.name) for c in table.value_columns)]
    return commands.attach_images(table.name, jar, table.family, [column.partition(b":")[2] for column in columns])


def _jar(given: str | None) -> str:
    """The plug-in, as region servers find it; by default it is built here."""
    return given or f"file://{plugin_jar(_LOG.info)}"


def _create_marks(address: HBaseAddress, servers: int) -> Command:
    count = max(8, _MARKS_PER_SERVER * servers)
    splits = [(i * 65536 // count).to_bytes(2, "big") for i in range(1, count)]
    settings = commands.family_settings(Family(), replicated=True)
    return commands.create_table(marks_table(address), {"m": settings}, splits)


def _add_peer(address: HBaseAddress, tables: Sequence[str]) -> Command:
    key = f"{address.zookeeper}:{address.root}/peer"
    return commands.add_peer(peer_name(address), key, [marks_table(address), *tables], _PEER_SETTINGS)


class Attachments:
    """Changes and reads the attachment of one VMS."""

    def __init__(self, session: Session, store: HBaseStore, address: HBaseAddress) -> None:
        self.session, self.store, self.address = session, store, address

    # --- what stands -----------------------------------------------------------------------------------------

    def state(self) -> AttachmentState:
        return self._read()[0]

    def _read(self) -> tuple[AttachmentState, int | None]:
        node = self.session.read(_NODE)
        return (AttachmentState(), None) if node is None else (AttachmentState.from_bytes(node[0]), node[1])

    def _change(self, change: Callable[[AttachmentState], AttachmentState]) -> AttachmentState:
        """Whoever else changes it at the same time."""
        while True:
            state, version = self._read()
            wanted = change(state)
            if wanted == state:
                return state
            try:
                with self.session.errors():
                    if version is None:
                        self.session.call("create", _NODE, wanted.to_bytes())
                    else:
                        self.session.call("set", _NODE, wanted.to_bytes(), version)
                return wanted
            except (NodeExistsError, NoNodeError, BadVersionError):
                continue
            finally:
                self.session.forget(_NODE)

    def version(self) -> int:
        """Another one after each change."""
        node = self.session.read(_NODE)
        return -1 if node is None else node[1]

    def guard(self) -> RegionGuard:
        """Tells which entries of the stream count."""
        return RegionGuard(self._floors, self.regions, self._remember, self.version)

    def _floors(self) -> Attachment:
        return Attachment({name: table.floors for name, table in self.state().tables.items()})

    def regions(self, table: str) -> dict[str, MetaRegion]:
        """The regions of a table that HBase knows, gone ones too as long as it remembers them."""
        return read_meta(self.store.scan("hbase:meta", *meta_range(table)))

    def _remember(self, table: str, region: str) -> None:
        def change(state: AttachmentState) -> AttachmentState:
            if table not in state.tables:
                return state
            before = state.tables[table]
            return _with(state, table, replace(before, floors={**before.floors, region: 0}))

        self._change(change)

    # --- attach and detach -----------------------------------------------------------------------------------

    def attach(self, tables: Sequence[BaseTable], *, created: bool = False) -> list[str]:
        """Ship the changes of these tables, and of those that were attached before; returns what was new.

        Raises UserError where a table cannot be followed, before anything is changed.
        """
        families = {table.name: self._scope_to_set(table) for table in tables}
        self._ensure_peer()
        state = self.state()
        new = [table for table in tables if table.name not in state.tables]
        for table in new:
            for family in families[table.name]:
                self._run(commands.alter_family(table.name, family, {"REPLICATION_SCOPE": "1"}))
        if new:
            names = [marks_table(self.address), *state.tables, *(table.name for table in new)]
            self._run(commands.set_peer_tables(state.peer, names))
        for table in new:
            floors = Attachment.floors(self.regions(table.name))
            found = Attached(floors, families[table.name], created)
            self._change(lambda now, name=table.name, found=found: _with(now, name, found))  # type: ignore[misc]
        return [table.name for table in new]

    def attach_images(self, table: BaseTable, jar: str | None) -> None:
        """Load the coprocessor for an attached table. `jar`: where region servers find it; by default one is built."""
        check_imageable(table, self._run(commands.describe_table(table.name)))
        self._run(_load_images(table, _jar(jar)))
        self._change(lambda now: _with(now, table.name, replace(now.tables[table.name], images=True)))

    def want_images(self, table: BaseTable, jar: str | None) -> None:
        """The same, and let the View Managers go by the images as soon as they can."""
        self.attach_images(table, jar)
        coordination = ZooKeeperCoordination(self.session)
        catalog = coordination.catalog()
        if catalog.table(table.name).images is None:
            coordination.change_catalog(catalog, catalog.with_images(table.name, -1))

    def renew(self, table: BaseTable) -> None:
        """Let the stream of an attached table begin anew, with the regions that it has now: it is scanned next."""
        if table.name not in self.state().tables:
            return
        families = self._scope_to_set(table)
        for family in families:
            self._run(commands.alter_family(table.name, family, {"REPLICATION_SCOPE": "1"}))
        floors = Attachment.floors(self.regions(table.name))

        def change(state: AttachmentState) -> AttachmentState:
            before = state.tables.get(table.name)
            if before is None:
                return state
            return _with(state, table.name, replace(before, floors=floors, families=before.families or families))

        self._change(change)

    def _scope_to_set(self, table: BaseTable) -> tuple[str, ...]:
        """The families to put into scope; refuses what cannot be followed."""
        known = self._run(commands.describe_table(table.name))
        check_followable(table, known)
        return (table.family,) if known[table.family].get("REPLICATION_SCOPE", "0") == "0" else ()

    def _ensure_peer(self) -> None:
        address, peer = self.address, peer_name(self.address)
        prepare_peer(self.session)
        if marks_table(address) not in self.store.tables():
            self._run(_create_marks(address, len(self._run(commands.servers()))))
        there = {p["peer"]: p for p in self._run(commands.peers())}
        state = self.state()
        if peer not in there:
            if state.tables:
                raise StoreError(
                    f"the replication peer {peer} was removed from HBase: what was written since then is lost to the "
                    "views. Drop the views, run vms hbase detach, attach again, and create them anew"
                )
            self._run(_add_peer(address, []))
        elif there[peer]["cluster_key"] != f"{address.zookeeper}:{address.root}/peer":
            raise Conflict(
                f"HBase has a replication peer {peer} of somebody else ({there[peer]['cluster_key']}); "
                f"give VMS another name, as in {address}&root=/vms2"
            )
        self._change(lambda now: replace(now, peer=peer))

    def detach_table(self, name: str) -> bool:
        """Ship its changes no more; whether its HBase table was made by us."""
        state = self.state()
        table = state.tables.get(name)
        if table is None:
            return False
        left = {n: t for n, t in state.tables.items() if n != name}
        self._run(commands.set_peer_tables(state.peer, [marks_table(self.address), *left]))
        self._unscope(name, table)
        self._change(lambda now: replace(now, tables={n: t for n, t in now.tables.items() if n != name}))
        return table.created

    def detach(self) -> None:
        """Remove the peer and whatever else `attach` did."""
        state = self.state()
        if any(p["peer"] == peer_name(self.address) for p in self._run(commands.peers())):
            self._run(commands.remove_peer(peer_name(self.address)))
        for name, table in state.tables.items():
            self._unscope(name, table)
        if marks_table(self.address) in self.store.tables():
            self.store.drop_table(marks_table(self.address))
        remove_peer_nodes(self.session)
        with self.session.errors():
            try:
                self.session.call("delete", _NODE)
            except NoNodeError:
                return
            finally:
                self.session.forget(_NODE)

    def _unscope(self, name: str, table: Attached) -> None:
        try:
            for family in table.families:
                self._run(commands.alter_family(name, family, {"REPLICATION_SCOPE": "0"}))
            if table.images:
                self._run(commands.detach_images(name))
        except TableMissing:
            return

    def _run(self, command: Command) -> Any:
        return self.store.admin.run(command)


@contextmanager
def attachments_at(address: HBaseAddress) -> Iterator[tuple[Attachments, Catalog]]:
    """The attachment of the VMS at an address, and its tables and views; no View Manager is needed."""
    with (
        closing(HBaseStore(address)) as store,
        closing(Session(address.zookeeper_hosts, address.root)) as session,
    ):
        yield Attachments(session, store, address), ZooKeeperCoordination(session).catalog()


def _with(state: AttachmentState, name: str, table: Attached) -> AttachmentState:
    return replace(state, tables={**state.tables, name: table})
