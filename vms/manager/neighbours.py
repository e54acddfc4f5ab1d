"""What a manager must know of the others: the seam between one process alone and many (design section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

from vms.maintenance.messages import Message
from vms.maintenance.record import Record
from vms.manager.coordination import Coordination

#: Failing rows by view: how many, and one of them in words.
Errors = Mapping[str, tuple[int, str | None]]


class Letter(NamedTuple):
    """A message that came from outside of this process."""

    sender: str
    receiver: str
    message: Message


class Neighbours(Protocol):
    """Asked in the manager's thread alone."""

    #: Seconds after which members ask again for what they miss.
    patience: float
    #: Whether members of one process talk directly.
    direct: bool

    def present(self) -> bool:
        """Whether this manager may act at all; False while its session is in doubt."""

    def incarnation(self) -> int:
        """Another number: everything that was held is lost; begin anew."""

    def assigned(self, record: Record, hosted: set[str]) -> set[str]:
        """The members that this process has to host now."""

    def hosting(self, members: set[str], record: Record) -> None:
        """These are hosted from now on."""

    def leads(self) -> bool: ...

    def lost(self, record: Record) -> str | None:
        """For the leader: a member of the ring whose state nobody will ever bring back."""

    def send(self, sender: str, receiver: str, message: Message) -> None:
        """To a member of another process, or to whoever leads; it may be lost."""

    def receive(self) -> Iterator[Letter]:
        """What has come since the last call."""

    def tell_errors(self, mine: Mapping[str, Errors]) -> Errors:
        """Publish the failing rows of the members here; returns those of all."""

    def finished(self, hosted: set[str]) -> bool:
        """Whether nothing will ever be hosted here again."""

    def on_news(self, wake: Callable[[], None]) -> None:
        """Call it, from any thread, when something changed."""

    def close(self) -> None: ...


class Alone:
    """One process hosts every member of the ring and leads it."""

    patience, direct = 0.1, True

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination

    def present(self) -> bool:
        return True

    def incarnation(self) -> int:
        return 0

    def assigned(self, record: Record, hosted: set[str]) -> set[str]:
        versions = {self._coordination.newest_ring()} | ({record.ring, record.previous_ring} if record.ring else set())
        if record.committed:
            versions.discard(record.previous_ring if record.previous_ring != record.ring else 0)
        return {member for version in versions for member in self._coordination.ring(version).members}

    def hosting(self, members: set[str], record: Record) -> None:
        pass

    def leads(self) -> bool:
        return True

    def lost(self, record: Record) -> str | None:
        return None

    def send(self, sender: str, receiver: str, message: Message) -> None:
        pass

    def receive(self) -> Iterator[Letter]:
        return iter(())

    def tell_errors(self, mine: Mapping[str, Errors]) -> Errors:
        return add_errors(mine)

    def finished(self, hosted: set[str]) -> bool:
        return False

    def on_news(self, wake: Callable[[], None]) -> None:
        pass

    def close(self) -> None:
        pass


def add_errors(by_member: Mapping[str, Errors]) -> Errors:
    """Failing rows of all members together."""
    found: dict[str, tuple[int, str | None]] = {}
    for errors in by_member.values():
        for view, (count, text) in errors.items():
            before = found.get(view, (0, None))
            found[view] = before[0] + count, before[1] or text
    return found
