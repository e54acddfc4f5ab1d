"""A member from its log: checkpoint, then the committed epochs after it (thesis Algorithm 4.1, design 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from vms.errors import CorruptState
from vms.maintenance.cut import Checkpoint, Cut
from vms.maintenance.member import Member
from vms.maintenance.messages import Effect, Received, RecordChanged, Superseded
from vms.maintenance.record import Definitions, Record
from vms.manager.log import Input

Resolve = Callable[[Record], Definitions]


class MemberLog(Protocol):
    """What recovery needs of a log: `vms.manager.log.TransactionLog`, or the one of the simulation."""

    def checkpoints(self, member: str, generation: int) -> Sequence[Any]:
        """Names of the member's checkpoints, the newest first."""

    def load_checkpoint(self, name: Any, /) -> Checkpoint:
        """Raises CorruptState where it is damaged."""

    def read(self, member: str, generation: int, after: int) -> Iterable[tuple[Cut, Input | None]]:
        """The cuts of epochs after `after`, in order, with what was received for them (None: not logged)."""


def recover(
    log: MemberLog,
    id_: str,
    record: Record,
    resolve: Resolve,
    make: Callable[[str], Member] = Member,
    warn: Callable[[str], None] = lambda _: None,
) -> tuple[Member, list[Effect]]:
    """The member as it stands under `record`, and the effects with which it goes on.

    Damaged checkpoints are passed over for older ones, which `warn` is told. Where the log does not reach the
    record, the only effect is `Superseded`, with the reason, and the views have to be rebuilt.
    """
    try:
        member = _newest_checkpoint(log, id_, record, resolve, make, warn)
        received = _replay(log, member, record, resolve)
    except CorruptState as error:
        return make(id_), [Superseded(str(error))]
    effects = member.handle(RecordChanged(record, resolve(record)))
    for sender, message in received:
        effects += member.handle(Received(sender, message))
    return member, effects


def _newest_checkpoint(
    log: MemberLog,
    id_: str,
    record: Record,
    resolve: Resolve,
    make: Callable[[str], Member],
    warn: Callable[[str], None],
) -> Member:
    """A member with the state of the newest checkpoint that can be used; an empty one if there is none."""
    for path in log.checkpoints(id_, record.generation):
        member = make(id_)
        try:
            checkpoint = log.load_checkpoint(path)
            member.restore(checkpoint, resolve(checkpoint.record))
        except CorruptState as error:
            warn(f"a checkpoint is damaged, an older one is used: {error}")
        else:
            return member
    return make(id_)


def _replay(log: MemberLog, member: Member, record: Record, resolve: Resolve) -> Input:
    """Bring the member over the committed epochs; what was received for the one that is under way."""
    for cut, received in log.read(member.id, record.generation, member.epoch):
        committed = cut.record.epoch < record.epoch or (cut.record.epoch == record.epoch and record.committed)
        if not committed or (received is None and _needs_input(cut.record, resolve)):
            return received or []
        member.replay(cut, resolve(cut.record), received or [])
    return []


def _needs_input(record: Record, resolve: Resolve) -> bool:
    """Whether other members sent something for the epoch: not in a ring of one that was one before."""
    definitions = resolve(record)
    return len(definitions.ring.members) > 1 or definitions.previous_ring is not None
