"""The receiving side of the change stream: source batches on their way to the owners of their rows.

Any member may receive any batch. It is acknowledged to the source only when every owner has said that its
part is durable; until then the parts are sent again, to whoever owns them now (design section 9).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from vms.maintenance.messages import Acknowledge, Delivered, Durable, Effect, Forward, Send
from vms.maintenance.timeline import slots_of
from vms.model.ring import Ring


@dataclass(slots=True)
class _Pending:
    """A batch that is not acknowledged yet. `waiting`: the owners, under the current ring, that have not answered;
    `epoch`: the highest that the others named."""

    event: Delivered
    waiting: dict[str, pa.RecordBatch]
    epoch: int = 0


class Delivery:
    """Batches received from the source and not yet acknowledged to it."""

    def __init__(self) -> None:
        self._pending: dict[int, _Pending] = {}
        self._ring: Ring | None = None
        self._generation = 0

    def __len__(self) -> int:
        return len(self._pending)

    def use(self, ring: Ring, generation: int) -> list[Effect]:
        """From now on these are the owners: everything pending is split and sent anew."""
        self._ring, self._generation = ring, generation
        for pending in self._pending.values():
            pending.waiting = self._split(pending.event)
        return [*self._settled(), *self.resend()]

    def deliver(self, event: Delivered) -> list[Effect]:
        """A batch came from the source. A repeat of a pending one starts it again."""
        pending = _Pending(event, {} if self._ring is None else self._split(event))
        self._pending[event.delivery] = pending
        return [] if self._ring is None else [*self._settled(), *self._send(event.delivery, pending)]

    def durable(self, owner: str, message: Durable) -> list[Effect]:
        """An owner answered. Answers under another ring or generation say nothing about today's owners."""
        pending = self._pending.get(message.delivery)
        if pending is None or self._ring is None:
            return []
        if (message.generation, message.ring) != (self._generation, self._ring.version):
            return []
        pending.waiting.pop(owner, None)
        pending.epoch = max(pending.epoch, message.epoch)
        return self._settled()

    def _settled(self) -> list[Effect]:
        """Batches that no owner has to answer any more; one without a row that concerns us never had one."""
        settled = {d: p.epoch for d, p in self._pending.items() if not p.waiting}
        for delivery in settled:
            del self._pending[delivery]
        return [Acknowledge(delivery, epoch) for delivery, epoch in settled.items()]

    def resend(self) -> list[Effect]:
        """Send what has not been answered again."""
        if self._ring is None:
            return []
        return [e for d, p in self._pending.items() for e in self._send(d, p)]

    def _split(self, event: Delivered) -> dict[str, pa.RecordBatch]:
        assert self._ring is not None
        owners = self._ring.owners[slots_of(event.rows)]
        parts = {}
        for index in np.unique(owners):
            mine = owners == index
            rows = event.rows if mine.all() else event.rows.filter(pa.array(mine))
            parts[self._ring.members[index]] = rows
        return parts

    def _send(self, delivery: int, pending: _Pending) -> list[Effect]:
        assert self._ring is not None
        event = pending.event
        return [
            Send(owner, Forward(delivery, self._generation, self._ring.version, event.table, event.region, rows))
            for owner, rows in pending.waiting.items()
        ]
