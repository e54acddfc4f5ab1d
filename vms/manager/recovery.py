"""A member from its log: checkpoint, then the committed epochs after it (thesis Algorithm 4.1, design 8)."""

from __future__ import annotations

from collections.abc import Callable

from vms.errors import CorruptState
from vms.maintenance.member import Member
from vms.maintenance.messages import Effect, Received, RecordChanged
from vms.maintenance.record import Definitions, Record
from vms.manager.log import TransactionLog

Resolve = Callable[[Record], Definitions]


def recover(
    log: TransactionLog, id_: str, record: Record, resolve: Resolve, make: Callable[[str], Member] = Member
) -> tuple[Member, list[Effect]]:
    """The member as it stands under `record`, and the effects with which it goes on.

    Damaged checkpoints are passed over for older ones. Where the log does not reach the record, the member
    comes back with less than the record needs and says so itself (`Superseded`), which ends in a rebuild.
    """
    member = make(id_)
    for path in log.checkpoints(id_, record.generation):
        try:
            checkpoint = log.load_checkpoint(path)
        except CorruptState:
            continue
        member.restore(checkpoint, resolve(checkpoint.record))
        break
    received = None
    try:
        for cut, received in log.read(id_, record.generation, member.epoch):
            committed = cut.record.epoch < record.epoch or (cut.record.epoch == record.epoch and record.committed)
            if not committed or (received is None and _needs_input(cut.record, resolve)):
                break
            member.replay(cut, resolve(cut.record), received or [])
            received = None
    except CorruptState:
        member, received = make(id_), None
    effects = member.handle(RecordChanged(record, resolve(record)))
    for sender, message in received or []:
        effects += member.handle(Received(sender, message))
    return member, effects


def _needs_input(record: Record, resolve: Resolve) -> bool:
    """Whether other members sent something for the epoch: not in a ring of one that was one before."""
    definitions = resolve(record)
    return len(definitions.ring.members) > 1 or definitions.previous_ring is not None
