"""What a View Manager answers over its control service, and what it shows as metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vms.errors import UserError
from vms.manager.clustered import Clustered
from vms.manager.control import Handler, pack_token, unpack_token
from vms.manager.runtime import Runtime
from vms.manager.settler import settle
from vms.model.token import Token
from vms.ring.links import Server

if TYPE_CHECKING:
    from vms.manager.hbase_backend import HBaseBackend

#: Seconds that one question may wait.
_MOST_SECONDS = 60.0


class Serving:
    """The handlers of one manager."""

    def __init__(
        self, id_: str, runtime: Runtime, neighbours: Clustered, server: Server, backend: HBaseBackend
    ) -> None:
        self._id, self._runtime, self._neighbours = id_, runtime, neighbours
        self._server, self._backend = server, backend
        self._began = time.time()

    def handlers(self) -> dict[str, Handler]:
        return {
            "Wait": self._wait,
            "Status": lambda _: self.status(),
            "Trace": self._trace,
            "Drain": self._drain,
            "Rebuild": self._rebuild,
        }

    def _wait(self, question: Mapping[str, Any]) -> bool:
        token = unpack_token(question["token"])
        seconds = min(float(question["seconds"]), _MOST_SECONDS)
        runtime = self._runtime
        tables = runtime.coordination.catalog().tables
        positions = self._backend.resolve(token, tables)
        whole = token.everything or any(tables[t].images is not None for t in token.rows if t in tables)
        # What HBase was told to forget is in a cut, of any manager, of an epoch that is issued by now.
        until = self._backend.coordination.latest_record().epoch if whole else 0
        return runtime.wait(lambda: runtime.covers(positions) and runtime.record.read.epoch >= until, seconds)

    def settle(self, stop: threading.Event) -> None:
        """Settle the tables with before-images, where this manager leads."""
        everything = {"token": pack_token(Token(everything=True)), "seconds": _MOST_SECONDS}
        if self._neighbours.leads():
            settle(self._runtime.coordination, self._runtime, lambda: self._wait(everything), stop)

    def _trace(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        epoch = question.get("epoch")
        return self._runtime.traces.get(None if epoch is None else int(epoch))

    def _drain(self, _: Mapping[str, Any]) -> bool:
        runtime = self._runtime
        newest = runtime.coordination.newest_ring()
        others = set(runtime.coordination.ring(newest).members) - runtime.members.ids if newest else set()
        if not others:
            raise UserError(f"{self._id} hosts all members: start another manager before this one is drained")
        self._neighbours.draining = True
        runtime.look()
        return True

    def _rebuild(self, question: Mapping[str, Any]) -> bool:
        self._runtime.ask_rebuild(str(question["reason"]))
        return True

    def status(self) -> dict[str, Any]:
        """Plain values."""
        runtime, record = self._runtime, self._runtime.record
        lag = runtime.source.lag()
        ring = runtime.coordination.ring(record.ring) if record.ring else None
        members = {}
        for hosted in runtime.members:
            member = hosted.member
            members[member.id] = {
                "slots": int(ring.owned(member.id).sum()) if ring is not None else 0,
                "epoch": member.epoch,
                "phase": member.phase.value,
                "waiting": len(member.buffer),
                "lost": hosted.lost,
            }
        links = self._neighbours.links
        return {
            "id": self._id,
            "address": self._server.address,
            "leads": self._neighbours.leads(),
            "draining": self._neighbours.draining,
            "up_seconds": time.time() - self._began,
            "epoch": record.epoch,
            "committed": record.read.epoch,
            "epochs": record.read.number,
            "ring": record.ring,
            "members": members,
            "backlog": {"entries": lag.entries, "bytes": lag.bytes, "oldest_ms": lag.oldest_ms},
            "memory_bytes": dict(runtime.memory),
            "rows": runtime.rows,
            "inbox_bytes": len(self._server.inbox),
            "spilled_bytes": self._server.inbox.spilled,
            "refused": dict(self._server.refused),
            "sent_messages": sum(p.sent for p in links.peers.values()),
            "sent_bytes": sum(p.bytes for p in links.peers.values()),
            "dropped_messages": sum(p.dropped for p in links.peers.values()),
            "seconds": dict(runtime.traces.totals),
            "warnings": list(runtime.warnings),
        }
