"""What a database asks of whoever follows its tables: a manager in this process, or managers elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from vms.maintenance.record import ReadPoint, Record
from vms.manager.deadletters import DeadLetterTable
from vms.manager.gaps import Gap
from vms.manager.neighbours import Errors
from vms.manager.programs import Programs
from vms.manager.subscriptions import Watcher


class Readable(NamedTuple):
    """What readers go by, published as one: the read point, the epochs committed before it, the failing rows of each
    view, and the tables whose views are not right."""

    point: ReadPoint
    epochs: int
    errors: Errors
    gaps: Mapping[str, Gap]


class Facts(NamedTuple):
    """For the status. `waiting`: entries that no view has seen; `managers`: what each says of itself, where they are
    other processes; `scanning`: tables that are read whole now for new views, and how many rows of each so far."""

    waiting: int
    rebuilding: str | None
    warnings: Sequence[str]
    managers: Sequence[Mapping[str, Any]] = ()
    scanning: Mapping[str, int] = MappingProxyType({})


class Following(Protocol):
    """See the module docstring."""

    programs: Programs
    dead: DeadLetterTable

    @property
    def record(self) -> Record:
        """As far as it is known here."""

    @property
    def readable(self) -> Readable: ...

    @property
    def memory(self) -> Mapping[str, int]:
        """Bytes by operation (`table:NAME` for the DeltaView of a table), of all members."""

    def facts(self) -> Facts: ...

    def followed_rows(self, table: str) -> int | None:
        """Rows of a table that is held in memory here; None where it is not."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def wait(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Until `done` holds after some commit."""

    def rebuild(self, reason: str) -> None:
        """Make all views anew from their tables, in a new generation, and wait until they are there."""

    def watch(self, watcher: Watcher) -> None:
        """Tell it of every epoch that a read from now on does not hold yet."""

    def unwatch(self, watcher: Watcher) -> None: ...
