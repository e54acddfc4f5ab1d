"""The one truth: a single record, changed only by compare-and-set (design section 6.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgpack

from vms.model.catalog import BulkLoad
from vms.model.ring import Ring
from vms.model.table import BaseTable
from vms.plan.plan import MaintenancePlan


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """What readers may see: every view as of `epoch`, in the tables of `generation` and `catalog`.

    `number`: how many epochs were committed so far, this one with them.
    """

    epoch: int = 0
    generation: int = 0
    catalog: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """The epoch that was issued last, and whether it is committed.

    `previous` is the epoch whose state it starts from (0: from nothing, the first of its generation), so a
    member can tell whether what it holds is complete. Ring and catalog change only together with the epoch:
    every epoch is a barrier; where `previous_ring` differs from `ring`, slots move before anything else.
    `read` is the last committed point.
    """

    epoch: int = 0
    previous: int = 0
    generation: int = 0
    ring: int = 0
    previous_ring: int = 0
    catalog: int = 0
    committed: bool = True
    read: ReadPoint = field(default_factory=ReadPoint)

    @property
    def unfinished(self) -> int:
        """The epoch under way, where it changes the tables that readers read; 0: none does."""
        return 0 if self.committed or self.generation != self.read.generation else self.epoch

    def commit(self) -> Record:
        """The same epoch, committed."""
        read = ReadPoint(self.epoch, self.generation, self.catalog, self.read.number + 1)
        return replace(self, committed=True, read=read)

    def next(self, epoch: int, *, ring: int | None = None, catalog: int | None = None) -> Record:
        """The epoch after this committed one, issued; its ring and catalog are these unless given."""
        return replace(
            self,
            epoch=epoch,
            previous=self.epoch,
            ring=self.ring if ring is None else ring,
            previous_ring=self.ring,
            catalog=self.catalog if catalog is None else catalog,
            committed=False,
        )

    def rebuild(self, epoch: int, ring: int, catalog: int) -> Record:
        """The first epoch of a new generation: state from nothing; whatever was issued is abandoned."""
        return Record(epoch, 0, self.generation + 1, ring, ring, catalog, False, self.read)

    def to_bytes(self) -> bytes:
        return msgpack.packb(asdict(self))

    @staticmethod
    def from_bytes(data: bytes) -> Record:
        d: dict[str, Any] = msgpack.unpackb(data)
        return Record(**{**d, "read": ReadPoint(**d["read"])})


@dataclass(frozen=True, eq=False)
class Program:
    """What a catalog version means to the core: the declared tables and the merged plan of all its views.

    `created` tells views of one name apart: one that was dropped and made again has another table to fill.
    `settled` are the tables that are followed by the images of their changes alone.
    `builds` are the views that a bulk job builds, told apart in the same way; changes of the tables in `queued`
    wait for them. `loads`: what bulk jobs left for views that are there.
    """

    version: int
    tables: Mapping[str, BaseTable]
    plan: MaintenancePlan
    created: Mapping[str, int] = field(default_factory=dict)
    settled: frozenset[str] = frozenset()
    builds: Mapping[str, int] = field(default_factory=dict)
    queued: frozenset[str] = frozenset()
    loads: Mapping[str, BulkLoad] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Definitions:
    """What the versions named by a record stand for. Definitions never change once they have a version.

    `previous_ring` is set only where slots move with the epoch.
    """

    ring: Ring
    previous_ring: Ring | None
    program: Program
