"""A database without a View Manager in this process: reads and writes by itself, asks the managers for the rest.

| | |
|---|---|
| reads of views | straight from the store, at the committed epoch that ZooKeeper tells |
| writes to base tables | straight to the store |
| definitions | into ZooKeeper; the managers react. Two operators at once: one gets a Conflict |
| waiting, status, rebuild | the control service of the managers |

Without any manager, reads at the level `any` go on; what would have to wait says that one must be started.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from vms.errors import StoreUnavailable
from vms.maintenance.record import Record
from vms.manager.control import pack_token
from vms.manager.control_client import ControlClient
from vms.manager.deadletters import DeadLetterTable
from vms.manager.following import Facts, Readable
from vms.manager.gaps import Gap, Gaps
from vms.manager.neighbours import add_errors
from vms.manager.programs import Programs
from vms.manager.subscriptions import Watcher
from vms.model.token import Token
from vms.ring.membership import ManagerInfo, Membership
from vms.ring.zookeeper import ZooKeeperCoordination
from vms.store.base import ManagedStore

#: Seconds of one question that waits; asked again until the caller's own time is over.
_WAIT_SECONDS = 20.0
_FRESH_SECONDS = 2.0


class RemoteRuntime:
    """What `Runtime` is to a `Database`, where the managers are other processes."""

    def __init__(
        self,
        store: ManagedStore,
        coordination: ZooKeeperCoordination,
        membership: Membership,
        client: ControlClient,
    ) -> None:
        self._coordination, self._client = coordination, client
        #: Who takes part.
        self.membership = membership
        self.programs, self.dead = Programs(), DeadLetterTable(store)
        self._gaps = Gaps(store)
        self._memory: tuple[float, dict[str, int]] = float("-inf"), {}
        self._known_gaps: tuple[int, Mapping[str, Gap]] = -1, {}
        self._news = threading.Event()
        membership.session.on_change(self._news.set)

    def start(self) -> None:
        """The managers run already, or not."""

    def stop(self) -> None:
        self._client.close()

    # --- what is readable ------------------------------------------------------------------------------------

    @property
    def record(self) -> Record:
        return self._coordination.record()

    @property
    def readable(self) -> Readable:
        read = self._coordination.record().read
        known = self._known_gaps
        if known[0] != read.epoch:
            known = self._known_gaps = read.epoch, self._gaps.of(read.generation)
        return Readable(read, read.number, add_errors(self.membership.errors()), known[1])

    # --- waiting ---------------------------------------------------------------------------------------------

    def wait(self, done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Until `done` holds after some commit."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not done():
            self.managers()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._news.wait(0.5 if left is None else min(left, 0.5))
            self._news.clear()
        return True

    def reach(self, token: Token, timeout: float | None = None) -> bool:
        """Until the committed epoch holds everything that the token names; a manager that dies is replaced."""
        deadline = None if timeout is None else time.monotonic() + timeout
        failures = 0
        while True:
            left = _WAIT_SECONDS if deadline is None else min(_WAIT_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return False
            managers = list(self.managers().values())
            question = {"token": pack_token(token), "seconds": left}
            try:
                if self._client.ask(managers[failures % len(managers)].address, "Wait", question, seconds=left + 10):
                    return True
            except StoreUnavailable:
                failures += 1
                self._news.wait(0.2)
                self._news.clear()

    def managers(self) -> dict[str, ManagerInfo]:
        """Those that live and host something; raises where there is none."""
        managers = self.membership.managers()
        able = {id_: m for id_, m in managers.items() if m.members} or managers
        if not able:
            raise StoreUnavailable(
                "no View Manager runs, so the views do not follow their tables now: start one with vms manager run"
            )
        return able

    def rebuild(self, reason: str) -> None:
        """Make all views anew from their tables, in a new generation, and wait until they are there."""
        generation = self.readable.point.generation
        manager = next(iter(self.managers().values()))
        self._client.ask(manager.address, "Rebuild", {"reason": reason})
        self.wait(lambda: self.readable.point.generation > generation)

    def watch(self, watcher: Watcher) -> None:
        raise StoreUnavailable(
            "watch needs the View Manager in this process: open the database with manage=True, or read the view"
        )

    def unwatch(self, watcher: Watcher) -> None:
        """Nobody watches."""

    @property
    def memory(self) -> Mapping[str, int]:
        """A moment old at the most: it is asked for view by view."""
        if time.monotonic() - self._memory[0] > _FRESH_SECONDS:
            memory: dict[str, int] = {}
            for manager in self.status():
                for name, count in manager.get("memory_bytes", {}).items():
                    memory[name] = memory.get(name, 0) + count
            self._memory = time.monotonic(), memory
        return self._memory[1]

    def facts(self) -> Facts:
        managers = self.status()
        waiting = sum(m["backlog"]["entries"] for m in managers if "backlog" in m)
        warnings = [f"{m['id']}: {text}" for m in managers for text in m.get("warnings", ())[-3:]]
        warnings += [f"{m['id']}: {m['failure']}" for m in managers if m.get("failure")]
        if not managers:
            warnings.append("no View Manager runs, so nothing follows the tables: start one with vms manager run")
        lost = [
            f"{name}: {member['lost']}" for m in managers for name, member in m["members"].items() if member["lost"]
        ]
        return Facts(waiting, lost[0] if lost else None, warnings, managers)

    def followed_rows(self, table: str) -> int | None:
        return None

    # --- questions -------------------------------------------------------------------------------------------

    def status(self) -> list[dict[str, Any]]:
        """What each manager says of itself; one that does not answer is told as such."""
        found = []
        for id_, manager in sorted(self.membership.managers().items()):
            try:
                found.append(self._client.ask(manager.address, "Status", {}))
            except StoreUnavailable as error:
                found.append({"id": id_, "address": manager.address, "members": {}, "failure": str(error)})
        return found

    def trace(self, epoch: int | None) -> list[dict[str, Any]]:
        """Where the time of the epoch went, at each manager that remembers it."""
        found = []
        for id_, manager in sorted(self.managers().items()):
            if epoch is None:
                epoch = self.readable.point.epoch
            trace = self._client.ask(manager.address, "Trace", {"epoch": epoch})
            if trace is not None:
                found.append({"manager": id_, **trace})
        return found

    def drain(self, id_: str) -> None:
        """Give the members of this manager to the others, and wait until that is done."""
        managers = self.membership.managers()
        if id_ not in managers:
            known = ", ".join(sorted(managers)) or "none"
            raise StoreUnavailable(f"no View Manager {id_} runs; there are: {known}")
        self._client.ask(managers[id_].address, "Drain", {})
        self.wait(lambda: id_ not in self.membership.claims().values())
