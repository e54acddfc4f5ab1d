"""What a database stands on: a store, its change stream, and what a cluster shares; one kind for each address.

embedded:PATH                     a folder on this machine
hbase:HOST:PORT[?...]             a running HBase (vms/manager/hbase_backend.py)
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vms.clock import Clock
from vms.errors import StoreError, UserError
from vms.manager.coordination import Coordination, LocalCoordination
from vms.manager.log import TransactionLog
from vms.model.catalog import ViewDefinition
from vms.model.table import BaseTable
from vms.model.token import Token
from vms.store.base import Family, ManagedStore, Mutation
from vms.store.embedded import EmbeddedStore
from vms.stream.base import Source
from vms.stream.embedded import EmbeddedSource
from vms.stream.encode import RowEncoder

if TYPE_CHECKING:
    from vms.manager.runtime import Runtime


class Backend(Protocol):
    """One kind of place for tables and views. What differs between the kinds is here, and nowhere above."""

    @property
    def address(self) -> str:
        """What `vms.connect` takes."""

    @property
    def store(self) -> ManagedStore: ...

    @property
    def source(self) -> Source: ...

    @property
    def coordination(self) -> Coordination: ...

    @property
    def clock(self) -> Clock:
        """Stamps for writers and epochs."""

    @property
    def log(self) -> TransactionLog | None: ...

    def started(self, runtime: Runtime) -> None:
        """The View Manager runs: changes may come."""

    def create_table(self, table: BaseTable) -> str:
        """Make sure that the store has the base table, and that its changes come; it is not declared yet.

        What the user should know of it, in a few words; or nothing.
        """

    @property
    def has_images(self) -> bool:
        """Whether changes can carry the rows before and after them."""

    def attach_images(self, table: BaseTable, jar: str | None) -> None:
        """Have every change of the table carry the rows before and after it; `jar`: where the plug-in is."""

    def renew(self, tables: Sequence[BaseTable]) -> None:
        """The views are made anew from these tables: take them as they are now, whatever happened to them."""

    def drop_table(self, name: str) -> None:
        """The table is not declared any more."""

    def check_view(self, view: ViewDefinition, tables: Collection[str]) -> None:
        """Refuse a view over tables whose changes do not come, or whose own table cannot be made."""

    def encoder(self, table: BaseTable) -> RowEncoder:
        """For rows of the table."""

    def token(self, table: str, mutations: Sequence[Mutation], positions: Mapping[str, int]) -> Token:
        """Of mutations that were written; `positions` are what the store told of them."""

    def latest(self, tables: Sequence[str]) -> Token:
        """Everything that was written to these tables before the call, by anybody."""

    def resolve(self, token: Token, tables: Mapping[str, BaseTable]) -> Token:
        """The same as positions alone, for which the manager can wait. `tables`: those that are declared."""

    def status(self) -> dict[str, Any]:
        """What is to be told of this kind of place."""

    def close(self) -> None: ...


class EmbeddedBackend:
    """One folder: the embedded store, its change stream and the log. For one process at a time."""

    has_images = False

    def __init__(self, path: Path, *, log: str) -> None:
        self.path, self.address = path, f"embedded:{path}"
        make_folder(path)
        self.store = EmbeddedStore(path / "store")
        try:
            reserved = int(self.store.meta_get("clock") or b"0")
            self.clock = Clock(reserved, lambda t: self.store.meta_put("clock", str(t).encode()))
            self.source = EmbeddedSource(self.store)
            self.coordination = LocalCoordination(self.store)
            self.log = open_log(path / "log", log)
        except BaseException:
            self.store.close()
            raise

    def started(self, runtime: Runtime) -> None:
        pass

    def create_table(self, table: BaseTable) -> str:
        if table.name in self.store.tables():
            self.store.drop_table(table.name)  # of a CREATE or DROP that was cut off: nothing declares it
        self.store.create_table(table.name, {table.family: Family()}, stream=True)
        return ""

    def attach_images(self, table: BaseTable, jar: str | None) -> None:
        raise UserError("before-images are for tables of HBase: the embedded store has no use for them")

    def renew(self, tables: Sequence[BaseTable]) -> None:
        pass

    def drop_table(self, name: str) -> None:
        self.store.drop_table(name)

    def check_view(self, view: ViewDefinition, tables: Collection[str]) -> None:
        pass

    def encoder(self, table: BaseTable) -> RowEncoder:
        return RowEncoder(table)

    def token(self, table: str, mutations: Sequence[Mutation], positions: Mapping[str, int]) -> Token:
        return Token(positions)

    def latest(self, tables: Sequence[str]) -> Token:
        token = Token()
        for name in tables:
            snapshot = self.store.snapshot(name)
            token = token | Token(snapshot.positions)
            snapshot.close()
        return token

    def resolve(self, token: Token, tables: Mapping[str, BaseTable]) -> Token:
        return token

    def status(self) -> dict[str, Any]:
        return {"disk_bytes": disk_bytes(self.path)}

    def close(self) -> None:
        self.source.close()
        self.store.close()


def open_log(folder: Path, kind: str) -> TransactionLog | None:
    """With the log off, an older one goes: it would not know what happened since."""
    if kind == "local":
        make_folder(folder)
        return TransactionLog(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return None


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create the folder {path}: {error.strerror}; choose another --store") from error


def disk_bytes(folder: Path) -> int:
    """Of all files; the store may remove some while they are counted."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total
