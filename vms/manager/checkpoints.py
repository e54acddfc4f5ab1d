"""When a checkpoint is taken: exported between two epochs, written in the background (design section 8)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from vms.errors import StoreError
from vms.maintenance.cut import Checkpoint
from vms.maintenance.member import Member
from vms.manager.log import TransactionLog

#: Log bytes after which a checkpoint is taken. Not higher, or recovery would replay for more than seconds; not
#: lower, or a small state would be written again and again.
CHECKPOINT_BYTES = 64 << 20
#: At the end of a process a checkpoint is taken after this many log bytes already: the next start replays less.
CLOSING_BYTES = 4 << 20


class Checkpoints:
    """Takes the checkpoints of one member.

    A checkpoint is the whole state, so it waits until the log has grown by at least the size of the last one:
    then all checkpoints together write no more than the log does, and nothing has to be merged at recovery.
    One that fails is told to `warn` and costs nothing but a longer log.
    """

    def __init__(self, log: TransactionLog, member: str, generation: int, warn: Callable[[str], None]) -> None:
        self._log, self._warn = log, warn
        self._thread: threading.Thread | None = None
        newest = log.checkpoints(member, generation)[:1]
        #: Size of the last checkpoint, and how long the log was (by `log.written`) when it was taken.
        self._size = newest[0].stat().st_size if newest else 0
        self._taken_at = log.written - log.size_bytes(member, generation)

    def committed(self, member: Member) -> None:
        """The member stands at the end of an epoch: take a checkpoint if it is time for one."""
        if self._due(CHECKPOINT_BYTES) and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._save, args=self._export(member), name="vms-checkpoint")
            self._thread.start()

    def close(self, member: Member | None) -> None:
        """Finish what is being written; take a last one of this member if the next start gains by it."""
        if self._thread is not None:
            self._thread.join()
        if member is not None and self._due(CLOSING_BYTES):
            self._save(*self._export(member))

    def _due(self, least: int) -> bool:
        return self._log.written - self._taken_at > max(least, self._size)

    def _export(self, member: Member) -> tuple[str, Checkpoint]:
        self._taken_at = self._log.written
        return member.id, member.checkpoint()

    def _save(self, member: str, checkpoint: Checkpoint) -> None:
        try:
            self._size = self._log.save_checkpoint(member, checkpoint)
        except StoreError as error:
            self._warn(f"no checkpoint of epoch {checkpoint.record.epoch} was taken: {error}")
