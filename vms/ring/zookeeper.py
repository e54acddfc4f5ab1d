"""The record, the rings and the catalogs in ZooKeeper (design sections 6.1 and 7).

    /vms/record                 the one record
    /vms/ring, /vms/rings/N     the newest version of the slot map; the members of each
    /vms/catalog, /catalogs/N   the newest version of the catalog; the content of each
    /vms/parts/DIGEST           a piece of a catalog that is too large for one node

Versions never change, so they are kept once read. Whatever changes is changed by compare-and-set. While ZooKeeper
is away, what was read last is still given to readers; changes raise `StoreUnavailable`, and it is then not known
whether they were made: look again when it is back.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable

import msgpack
from kazoo.exceptions import BadVersionError

from vms.errors import Conflict, InternalError
from vms.maintenance.record import Record
from vms.model.catalog import Catalog
from vms.model.ring import Ring
from vms.ring.assigner import assign
from vms.ring.session import NodeExistsError, NoNodeError, Session

#: Bytes of a catalog in one node. ZooKeeper takes one megabyte, with all of a request.
_PART = 512 << 10
_FOLDERS = ("rings", "catalogs", "parts")


class ZooKeeperCoordination:
    """`vms.manager.coordination.Coordination` over a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._rings: dict[int, Ring] = {}
        self._catalogs: dict[int, Catalog] = {0: Catalog()}
        with session.errors():
            for folder in _FOLDERS:
                session.client.ensure_path(f"/{folder}")
            for name, empty in (("record", b""), ("ring", b"0"), ("catalog", b"0")):
                if session.client.exists(f"/{name}") is None:
                    self._create(f"/{name}", empty)

    # --- the record ------------------------------------------------------------------------------------------

    def record(self) -> Record:
        return self._record()[0]

    def latest_record(self) -> Record:
        """Not what was read last, but what stands now."""
        with self.session.errors():
            self.session.call("sync", "/record")
        self.session.forget("/record")
        return self.record()

    def _record(self) -> tuple[Record, int]:
        data, version = self._there("/record")
        return (Record.from_bytes(data) if data else Record()), version

    def compare_and_set(self, expected: Record, record: Record) -> bool:
        """Replace the record if it still is `expected`; durable before it returns."""
        found, version = self._record()
        if found != expected:
            return False
        try:
            with self.session.errors():
                return self._set("/record", record.to_bytes(), version)
        finally:
            self.session.forget("/record")

    # --- rings -----------------------------------------------------------------------------------------------

    def newest_ring(self) -> int:
        return int(self._there("/ring")[0])

    def ring(self, version: int) -> Ring:
        if version not in self._rings:
            node = self.session.read(f"/rings/{version}")
            if node is None:
                raise InternalError(f"ring version {version} is not kept any more")
            self._rings[version] = assign(version, msgpack.unpackb(node[0]))
        return self._rings[version]

    def add_ring(self, members: Iterable[str]) -> Ring:
        """The next version of the slot map, for these members; raises Conflict if somebody else was first."""
        return self._add_ring(self._there("/ring"), members)

    def _add_ring(self, newest: tuple[bytes, int], members: Iterable[str]) -> Ring:
        """The version after `newest`, if that still is the newest."""
        after, version = int(newest[0]) + 1, newest[1]
        self._advance("/ring", version, f"/rings/{after}", msgpack.packb(sorted(set(members))), after, "the ring")
        return self.ring(after)

    def change_members(self, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> Ring | None:
        """A ring with these members more and those less, whoever changes it at the same time.

        None where that is the newest already, or where nobody would be left: the last member stays.
        """
        while True:
            newest = self._there("/ring")
            now = set(self.ring(int(newest[0])).members) if int(newest[0]) else set()
            wanted = (now | set(add)) - set(remove)
            if wanted == now or not wanted:
                return None
            try:
                return self._add_ring(newest, wanted)
            except Conflict:
                continue

    # --- catalogs --------------------------------------------------------------------------------------------

    def catalog(self, version: int | None = None) -> Catalog:
        """That version, or the newest."""
        if version is None:
            version = int(self._there("/catalog")[0])
        if version not in self._catalogs:
            node = self.session.read(f"/catalogs/{version}")
            if node is None:
                raise InternalError(f"catalog version {version} is not kept any more")
            parts = [self._there(f"/parts/{digest}")[0] for digest in msgpack.unpackb(node[0])]
            self._catalogs[version] = Catalog.from_bytes(zlib.decompress(b"".join(parts)))
        return self._catalogs[version]

    def change_catalog(self, expected: Catalog, catalog: Catalog) -> None:
        """Make it the newest; raises Conflict if somebody else changed `expected` first."""
        newest, version = self._there("/catalog")
        if int(newest) != expected.version:
            raise _changed("the catalog")
        body = zlib.compress(catalog.to_bytes())
        digests = []
        for start in range(0, len(body), _PART):
            part = body[start : start + _PART]
            digests.append(hashlib.sha256(part).hexdigest())
            with self.session.errors():
                self._create(f"/parts/{digests[-1]}", part)
        number = catalog.version
        self._advance("/catalog", version, f"/catalogs/{number}", msgpack.packb(digests), number, "the catalog")

    # --- nodes -----------------------------------------------------------------------------------------------

    def _there(self, path: str) -> tuple[bytes, int]:
        node = self.session.read(path)
        if node is None:
            raise InternalError(f"{self.session.root}{path} is not in ZooKeeper any more: was it deleted by hand?")
        return node

    def _create(self, path: str, data: bytes) -> None:
        """Unless it is there."""
        try:
            self.session.call("create", path, data)
        except NodeExistsError:
            return

    def _set(self, path: str, data: bytes, version: int) -> bool:
        try:
            self.session.call("set", path, data, version)
        except (BadVersionError, NoNodeError):
            return False
        return True

    def _advance(self, pointer: str, version: int, path: str, data: bytes, number: int, what: str) -> None:
        """Create the version and point to it, both or none."""
        change = self.session.client.transaction()
        change.check(pointer, version)
        change.create(path, data)
        change.set_data(pointer, str(number).encode())
        with self.session.errors():
            results = self.session.commit(change)
        self.session.forget(pointer)
        self.session.forget(path)
        if any(isinstance(result, Exception) for result in results):
            raise _changed(what)


def _changed(what: str) -> Conflict:
    return Conflict(f"{what} was changed by somebody else meanwhile; look at it and try again")
