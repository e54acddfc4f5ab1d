"""The members that a process hosts: loaded from their logs, begun anew with a generation, given away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vms.maintenance.member import Member, Phase
from vms.maintenance.messages import Effect, RecordChanged, Superseded
from vms.maintenance.operations.delta_view import DeltaView
from vms.maintenance.record import Definitions, Record
from vms.manager.checkpoints import Checkpoints
from vms.manager.log import TransactionLog
from vms.manager.neighbours import Errors
from vms.manager.programs import Programs
from vms.manager.recovery import recover
from vms.model.catalog import Catalog
from vms.model.ring import Ring


@dataclass(eq=False)
class Hosted:
    """One member here. `lost`: why its log holds no state from which it could go on."""

    member: Member
    checkpoints: Checkpoints | None = None
    lost: str | None = None


class Members:
    """By id. `resolve` tells what a record means, `ring` a version of the slot map."""

    def __init__(
        self,
        log: TransactionLog | None,
        resolve: Callable[[Record], Definitions],
        ring: Callable[[int], Ring],
        warn: Callable[[str], None],
        *,
        alone: bool,
    ) -> None:
        self._log, self._resolve, self._ring, self._warn, self._alone = log, resolve, ring, warn, alone
        self._hosted: dict[str, Hosted] = {}

    def __contains__(self, id_: str) -> bool:
        return id_ in self._hosted

    def __iter__(self) -> Iterator[Hosted]:
        return iter([self._hosted[id_] for id_ in sorted(self._hosted)])

    def __len__(self) -> int:
        return len(self._hosted)

    def get(self, id_: str) -> Hosted | None:
        return self._hosted.get(id_)

    @property
    def ids(self) -> set[str]:
        return set(self._hosted)

    def memory(self) -> dict[str, int]:
        """Bytes by operation, of all that are here."""
        found: dict[str, int] = {}
        for hosted in self:
            for name, count in hosted.member.store.memory_bytes().items():
                found[name] = found.get(name, 0) + count
        return found

    def followed_rows(self, table: str) -> int | None:
        """Rows of a table that every member here holds a share of; None where they do not."""
        held = [hosted.member.store.delta_views.get(table) for hosted in self]
        known = [view for view in held if isinstance(view, DeltaView)]
        return sum(map(len, known)) if known and len(known) == len(held) else None

    def load(self, id_: str, record: Record) -> list[Effect]:
        """The member as its log tells, and the effects with which it goes on."""
        log = self._log
        effects: list[Effect] = []
        member = Member(id_, log=log is not None)
        used = record.epoch > 0 and (id_ in self._ring(record.ring) or id_ in self._ring(record.previous_ring))
        if log is not None and not used and not log.knows(id_):
            log.create(id_, record.generation)
        if log is not None and record.epoch and log.knows(id_):
            if self._alone:
                log.remove_unfinished(id_)
            member, effects = recover(log, id_, record, self._resolve, warn=self._warn)
        elif used:
            without = "it was opened without a log" if log is None else f"there is no log of member {id_}"
            effects = [Superseded(without)]
        elif record.epoch:
            effects = member.handle(RecordChanged(record, self._resolve(record)))
        lost = next((e.reason for e in effects if isinstance(e, Superseded)), None)
        hosted = self._hosted[id_] = Hosted(member, self._checkpoints(id_, record), lost)
        if lost is None:
            return effects
        hosted.member = Member(id_, log=log is not None)
        return []

    def _checkpoints(self, id_: str, record: Record) -> Checkpoints | None:
        if self._log is None:
            return None
        return Checkpoints(self._log, id_, record.generation, self._warn)

    def new_generation(self, record: Record) -> None:
        """State begins from nothing. A log that held none vouches for the member from here on."""
        for hosted in self:
            id_ = hosted.member.id
            if hosted.lost is not None:
                hosted.lost, hosted.member = None, Member(id_, log=self._log is not None)
                if self._log is not None:
                    self._log.create(id_, record.generation)
            hosted.checkpoints = self._checkpoints(id_, record)

    def drop(self, id_: str, *, checkpoint: bool = False) -> None:
        """Host it no more; with a last checkpoint where the next home gains by it."""
        hosted = self._hosted.pop(id_)
        if hosted.checkpoints is not None:
            idle = hosted.member.phase is Phase.IDLE and hosted.member.epoch > 0
            keep = checkpoint and hosted.lost is None and idle
            hosted.checkpoints.close(hosted.member if keep else None)


def failing_rows(member: Member, catalog: Catalog, programs: Programs) -> Errors:
    """Rows whose expressions fail, by view."""
    found: dict[str, tuple[int, str | None]] = {}
    failing = {id_: op for id_, op in member.store.operations.items() if getattr(op, "error_count", 0)}
    for name, view in catalog.views.items() if failing else ():
        for node in programs.plan(catalog, name, view.sql).plan.nodes:
            if node.id in failing:
                count, text = found.get(name, (0, None))
                more, example = (getattr(failing[node.id], a) for a in ("error_count", "last_error"))
                found[name] = (count + more, text or example)
    return found
