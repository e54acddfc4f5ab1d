"""Where the record, the rings and the catalogs are kept: the seam for ZooKeeper (design section 7).

`LocalCoordination` keeps them in the store itself, for a cluster of one process.
"""

from __future__ import annotations

from threading import Lock
from typing import Protocol

import msgpack

from vms.errors import Conflict, InternalError
from vms.maintenance.record import Record
from vms.model.catalog import Catalog
from vms.model.ring import Ring
from vms.ring.assigner import assign
from vms.store.base import MetaStore


class Coordination(Protocol):
    """Durable shared values. Rings and catalogs never change once they have a version."""

    def record(self) -> Record: ...

    def compare_and_set(self, expected: Record, record: Record) -> bool:
        """Replace the record if it still is `expected`; durable before it returns."""

    def ring(self, version: int) -> Ring: ...

    def newest_ring(self) -> int: ...

    def add_ring(self, members: list[str]) -> Ring:
        """The next version of the slot map, for these members."""

    def catalog(self, version: int | None = None) -> Catalog:
        """That version, or the newest."""

    def change_catalog(self, expected: Catalog, catalog: Catalog) -> None:
        """Make it the newest; raises Conflict if somebody else changed `expected` first."""


class LocalCoordination:
    """In the small values of a store."""

    def __init__(self, store: MetaStore) -> None:
        self._store = store
        self._lock = Lock()
        #: Versions that were read: they never change.
        self._rings: dict[int, Ring] = {}
        self._catalogs: dict[int, Catalog] = {0: Catalog()}

    def record(self) -> Record:
        data = self._store.meta_get("record")
        return Record() if data is None else Record.from_bytes(data)

    def compare_and_set(self, expected: Record, record: Record) -> bool:
        before = None if expected == Record() else expected.to_bytes()
        return self._store.meta_cas("record", before, record.to_bytes())

    def ring(self, version: int) -> Ring:
        if version not in self._rings:
            data = self._store.meta_get(f"ring/{version}")
            if data is None:
                raise InternalError(f"ring version {version} is not kept any more")
            self._rings[version] = assign(version, msgpack.unpackb(data))
        return self._rings[version]

    def newest_ring(self) -> int:
        data = self._store.meta_get("ring")
        return 0 if data is None else int(data)

    def add_ring(self, members: list[str]) -> Ring:
        version = self.newest_ring() + 1
        self._store.meta_put(f"ring/{version}", msgpack.packb(sorted(members)))
        self._store.meta_put("ring", str(version).encode())
        return self.ring(version)

    def catalog(self, version: int | None = None) -> Catalog:
        if version is None:
            newest = self._store.meta_get("catalog")
            version = 0 if newest is None else int(newest)
        if version not in self._catalogs:
            data = self._store.meta_get(f"catalog/{version}")
            if data is None:
                raise InternalError(f"catalog version {version} is not kept any more")
            self._catalogs[version] = Catalog.from_bytes(data)
        return self._catalogs[version]

    def change_catalog(self, expected: Catalog, catalog: Catalog) -> None:
        with self._lock:
            if self.catalog().version != expected.version:
                raise Conflict("the catalog was changed by somebody else meanwhile; look at it and try again")
            self._store.meta_put(f"catalog/{catalog.version}", catalog.to_bytes())
            self._store.meta_put("catalog", str(catalog.version).encode())
