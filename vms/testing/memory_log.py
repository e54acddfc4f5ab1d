"""The transaction log in memory, with what a crash leaves of it: for the simulation.

The same interface and the same bytes as `vms.manager.log.TransactionLog`.
"""

from __future__ import annotations

from collections.abc import Sequence

from vms.maintenance.cut import Checkpoint, Cut, cut_from_bytes, cut_to_bytes
from vms.maintenance.messages import Batch, Handoff

Input = list[tuple[str, Batch | Handoff]]


class MemoryLog:
    """All members' logs on one shared disk. With `volatile`, what was written after the last `flush` is lost in
    a crash although it was reported durable: a protocol that skips its fsync."""

    def __init__(self, *, volatile: bool = False) -> None:
        self._volatile = volatile
        self.cuts: dict[tuple[int, str, int], bytes] = {}
        self._received: dict[tuple[int, str, int], Input] = {}
        self._checkpoints: dict[tuple[int, str], list[Checkpoint]] = {}
        self._begins: dict[str, int] = {}
        self._unsynced: list[tuple[int, str, int]] = []

    def create(self, member: str, generation: int) -> None:
        self._begins[member] = generation

    def knows(self, member: str) -> bool:
        return member in self._begins

    def propose(self, member: str, cut: Cut) -> tuple[Cut, bool] | None:
        key = (cut.record.generation, member, cut.record.epoch)
        if cut.record.generation < self._begins.get(member, cut.record.generation + 1) or self._passed(*key):
            return None
        if key in self.cuts:
            return cut_from_bytes(self.cuts[key]), False
        self.cuts[key] = cut_to_bytes(cut)
        self._unsynced.append(key)
        return cut, True

    def _passed(self, generation: int, member: str, epoch: int) -> bool:
        return any(c.record.epoch >= epoch for c in self.checkpoints(member, generation))

    def append_received(
        self, member: str, generation: int, epoch: int, batches: Sequence[tuple[str, Batch | Handoff]]
    ) -> None:
        self._received.setdefault((generation, member, epoch), list(batches))

    def crash(self, member: str) -> None:
        """The machine of this member loses what was not synced."""
        if self._volatile:
            for key in [k for k in self._unsynced if k[1] == member]:
                self.cuts.pop(key, None)
                self._received.pop(key, None)
        self._unsynced = []

    def read(self, member: str, generation: int, after: int) -> list[tuple[Cut, Input | None]]:
        keys = sorted(k for k in self.cuts if k[:2] == (generation, member) and k[2] > after)
        return [(cut_from_bytes(self.cuts[k]), self._received.get(k)) for k in keys]

    def save_checkpoint(self, member: str, checkpoint: Checkpoint) -> None:
        record = checkpoint.record
        kept = self._checkpoints.setdefault((record.generation, member), [])
        kept.append(checkpoint)
        for key in [k for k in self.cuts if k[:2] == (record.generation, member) and k[2] <= record.epoch]:
            del self.cuts[key]
            self._received.pop(key, None)

    def checkpoints(self, member: str, generation: int) -> list[Checkpoint]:
        return self._checkpoints.get((generation, member), [])[::-1]

    def load_checkpoint(self, checkpoint: Checkpoint) -> Checkpoint:
        return checkpoint

    def lose(self, member: str) -> None:
        """The disk of this member is gone."""
        self._begins.pop(member, None)
        for held in (self.cuts, self._received):
            for key in [k for k in held if k[1] == member]:
                del held[key]  # type: ignore[attr-defined]
        for place in [k for k in self._checkpoints if k[1] == member]:
            del self._checkpoints[place]
