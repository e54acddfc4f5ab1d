"""How far HBase's stream has come: whether all that was written to HBase before a moment was delivered.

Marks tell it for the log of a region server that lives (vms/stream/hbase_marks.py). A log of one that died is shipped
by another server, as a queue of its own that ZooKeeper shows until it is done. So everything that was written before
a moment is delivered when, after that moment,

- each region server that lives was seen by two marks, one after the other, both through its own log: their region
  did not move meanwhile;
- no queue of a region server that died is left for our peer;
- and the region servers that live are still the same ones: the log of one that died meanwhile may not have come.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from vms.errors import StoreError, StoreUnavailable
from vms.ring.session import NoNodeError, Session
from vms.store import hbase_commands as commands
from vms.store.base import Cell, Mutation
from vms.store.hbase import HBaseStore
from vms.stream.hbase_marks import MarkBoard
from vms.stream.hbase_regions import encoded_name, meta_range

if TYPE_CHECKING:
    from vms.manager.everywhere import SharedBoard

_COLUMN = b"m:v"
#: Between two looks at something that is about to change in HBase.
_PAUSE_SECONDS = 0.1
#: How long one round of marks may take before it is begun again. Not lower than the longest sleep of HBase's sender.
_ROUND_SECONDS = 30.0


class _MarkRegion(NamedTuple):
    name: str
    row: bytes
    server: str
    opened: bytes


class Latest:
    """Waits until HBase has delivered everything. `hbase` is a session below HBase's own node."""

    def __init__(self, store: HBaseStore, hbase: Session, peer: str, board: MarkBoard | SharedBoard) -> None:
        self._store, self._hbase, self._peer, self._board = store, hbase, peer, board

    def wait(self, seconds: float = 120.0) -> None:
        """Until everything is acknowledged that was written to HBase before the call.

        Raises StoreUnavailable when that does not come about in time.
        """
        deadline = time.monotonic() + seconds
        while not self._round(deadline):
            if time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"HBase did not deliver everything in {seconds:.0f} s; see vms status for how far it is behind"
                )
            time.sleep(_PAUSE_SECONDS)

    def _round(self, deadline: float) -> bool:
        servers = self._live()
        if not servers or self._unfinished(servers):
            return False
        regions = self._place(servers)
        if regions is None:
            return False
        until = min(deadline, time.monotonic() + _ROUND_SECONDS)
        for _ in range(2):
            marks = {region: uuid.uuid4().bytes for region in regions}
            self._board.expect(marks.values())
            stamp = time.time_ns() // 1_000_000
            written = [Mutation(r.row, (Cell(_COLUMN, stamp, value=value),)) for r, value in marks.items()]
            try:
                self._store.mutate(self._board.table, written)
            except StoreUnavailable:
                return False
            if not self._board.wait(marks.values(), until, lambda: self._live() != servers):
                return False
        same = set(regions) <= set(self._regions())
        return same and self._live() == servers and not self._unfinished(servers)

    def _live(self) -> set[str]:
        """The region servers that live, as HOST,PORT,STARTCODE."""
        return set(self._children("/rs"))

    def _unfinished(self, servers: set[str]) -> bool:
        """Whether logs of servers that died are still to be shipped."""
        for server in self._children("/replication/rs"):
            for queue in self._children(f"/replication/rs/{server}"):
                peer, _, dead = queue.partition("-")
                if peer == self._peer and (dead or server not in servers):
                    return True
                if peer == self._peer:
                    self._check_one_log(server, queue)
        return False

    def _check_one_log(self, server: str, queue: str) -> None:
        if any("regiongroup" in wal for wal in self._children(f"/replication/rs/{server}/{queue}")):
            raise StoreError(
                "read level latest is not possible: this HBase keeps several write-ahead logs for each region server "
                "(hbase.wal.provider=multiwal), and marks tell of one; read critical with the writer's token"
            )

    def _children(self, path: str) -> list[str]:
        with self._hbase.errors():
            try:
                return self._hbase.call("get_children", path)
            except NoNodeError:
                return []

    def _place(self, servers: set[str]) -> list[_MarkRegion] | None:
        """One region of marks on each server; None if one had to be moved first."""
        found: dict[str, list[_MarkRegion]] = {}
        for region in self._regions():
            found.setdefault(region.server, []).append(region)
        moved = False
        for server in sorted(servers - found.keys()):
            spare = [regions for regions in found.values() if len(regions) > 1]
            if not spare:
                raise StoreError(
                    f"HBase has more region servers than regions of {self._board.table}; split that table, "
                    "so that each of them can have one"
                )
            self._store.admin.run(commands.move(spare[0].pop().name, server))
            moved = True
        return None if moved else [found[server][0] for server in servers]

    def _regions(self) -> list[_MarkRegion]:
        """The regions of the table of marks that are open."""
        found = []
        for key, row in self._store.scan("hbase:meta", *meta_range(self._board.table)):
            name = encoded_name(key)
            values: Mapping[bytes, bytes] = {column: version.value for column, version in row.items()}
            if name is None or values.get(b"info:state") != b"OPEN" or b"info:sn" not in values:
                continue
            start = key[len(self._board.table) + 1 : key.rindex(b",")]
            opened = values.get(b"info:seqnumDuringOpen", b"")
            found.append(_MarkRegion(name, start + b"\0mark", values[b"info:sn"].decode(), opened))
        return found
