"""Who takes part: View Managers, the members that they host, and which of them leads (design section 7).

    /vms/managers/ID      a View Manager that lives: where it is, what it hosts
    /vms/members/M        a member that exists: the log that holds its state
    /vms/claims/M         the manager that hosts it now
    /vms/election/N       candidates for the lead: the lowest number leads
    /vms/errors/M         failing rows of the views, as far as the member holds them
    /vms/secret           what managers and clients of this cluster know each other by

Managers, claims and candidates hang on the session of their manager and vanish with it. A claim is made by whoever
can reach the member's log, so a member of a dead manager finds a home without a leader. Two that believe to host one
member, for a moment, do no harm: their log decides (`vms.maintenance.cut`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgpack

from vms.errors import Conflict
from vms.ring.session import NodeExistsError, NoNodeError, Session, State

_FOLDERS = ("managers", "members", "claims", "election", "errors")
#: The name of a View Manager that nobody else can ask: of a process that opened the database for itself.
SINGLE = "single"
_NO_ERRORS = msgpack.packb({})


@dataclass(frozen=True)
class ManagerInfo:
    """What a View Manager says about itself.

    `address`: HOST:PORT of its links and its control service; `metrics`: of /metrics, if it has any. `log`: names
    the log that it can reach ("": it keeps none). `room`: how many members it means to host.
    """

    id: str
    address: str
    metrics: str = ""
    log: str = ""
    room: int = 1
    members: tuple[str, ...] = ()
    draining: bool = False

    def to_bytes(self) -> bytes:
        return msgpack.packb(asdict(self))

    @staticmethod
    def from_bytes(data: bytes) -> ManagerInfo:
        d: dict[str, Any] = msgpack.unpackb(data)
        return ManagerInfo(**{**d, "members": tuple(d["members"])})


class Membership:
    """Looks at who takes part; with `join`, as one of them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.info: ManagerInfo | None = None
        self._ballot = ""
        with session.errors():
            for folder in _FOLDERS:
                session.client.ensure_path(f"/{folder}")

    def secret(self) -> str:
        """Made by whoever asks first. Whoever may read it in ZooKeeper belongs to the cluster."""
        with self.session.errors(), suppress(NodeExistsError):
            self.session.call("create", "/secret", secrets.token_hex(32).encode())
        node = self.session.read("/secret")
        assert node is not None
        return node[0].decode()

    # --- who is there ----------------------------------------------------------------------------------------

    def managers(self) -> dict[str, ManagerInfo]:
        """Those that live, by id."""
        return {id_: ManagerInfo.from_bytes(data) for id_, data in self._all("managers").items()}

    def members(self) -> dict[str, str]:
        """Every member and its log."""
        return {member: data.decode() for member, data in self._all("members").items()}

    def claims(self) -> dict[str, str]:
        """The manager that hosts each member; those without a home are not in it."""
        return {member: data.decode() for member, data in self._all("claims").items()}

    def errors(self) -> dict[str, dict[str, tuple[int, str | None]]]:
        """Failing rows by member and view."""
        return {
            member: {view: (count, text) for view, (count, text) in msgpack.unpackb(data).items()}
            for member, data in self._all("errors").items()
        }

    def leader(self) -> str | None:
        """The manager that leads."""
        for ballot in self.session.children("/election"):
            node = self.session.read(f"/election/{ballot}")
            if node is not None:
                return node[0].decode()
        return None

    def _all(self, folder: str) -> dict[str, bytes]:
        found = {name: self.session.read(f"/{folder}/{name}") for name in self.session.children(f"/{folder}")}
        return {name: node[0] for name, node in found.items() if node is not None}

    # --- taking part -----------------------------------------------------------------------------------------

    def join(self, info: ManagerInfo) -> None:
        """Appear, with no member, and stand for election. Also after a lost session.

        Raises Conflict where another process goes by this id, or where this manager or another one is `SINGLE` and so
        has to be the only one. One that died is forgotten with its session.
        """
        self.info = replace(info, members=())
        with self.session.errors():
            try:
                self.session.call("create", f"/managers/{info.id}", self.info.to_bytes(), ephemeral=True)
            except NodeExistsError:
                raise Conflict(
                    f"a View Manager {info.id} is there already; give this one another --id, or wait until "
                    "ZooKeeper has forgotten the one that died"
                ) from None
            self._check_alone()
            path = self.session.call("create", "/election/", info.id.encode(), ephemeral=True, sequence=True)
        self._ballot = path.rpartition("/")[2]
        for folder in ("/managers", "/election"):
            self.session.forget(folder)

    def _check_alone(self) -> None:
        """After it appeared: of two that do so at once, the later one or both see the other."""
        assert self.info is not None
        self.session.forget("/managers")
        there = self.managers()
        if SINGLE in there and len(there) > 1:
            self._delete(f"/managers/{self.info.id}")
            raise Conflict(no_other(there, self.info.id))

    def update(self, info: ManagerInfo) -> None:
        """Say something else about this manager."""
        if info != self.info:
            with self.session.errors():
                self.session.call("set", f"/managers/{info.id}", info.to_bytes())
            self.info = info
            self.session.forget(f"/managers/{info.id}")

    def leave(self) -> None:
        """Vanish at once, and everything that is claimed with it."""
        if self.info is None:
            return
        for member, home in self.claims().items():
            if home == self.info.id:
                self.release(member)
        self._delete(f"/election/{self._ballot}")
        self._delete(f"/managers/{self.info.id}")
        self.info = None

    def leads(self) -> bool:
        """Whether this manager leads, as far as it can know."""
        return self.session.state is State.CONNECTED and self.session.children("/election")[:1] == [self._ballot]

    def claim(self, member: str, log: str) -> bool:
        """Become the home of a member that has none; False if somebody else was first."""
        assert self.info is not None
        with self.session.errors():
            try:
                self.session.call("create", f"/claims/{member}", self.info.id.encode(), ephemeral=True)
            except NodeExistsError:
                return False
            finally:
                self.session.forget("/claims")
                self.session.forget(f"/claims/{member}")
            self._remember(member, log)
        return True

    def _remember(self, member: str, log: str) -> None:
        self._put(f"/members/{member}", log.encode())

    def _put(self, path: str, data: bytes) -> None:
        try:
            self.session.call("create", path, data)
        except NodeExistsError:
            self.session.call("set", path, data)
        self.session.forget(path.rpartition("/")[0])
        self.session.forget(path)

    def tell_errors(self, member: str, errors: Mapping[str, tuple[int, str | None]]) -> None:
        """Failing rows of the member, by view; nothing is done where that is known."""
        packed = msgpack.packb({view: list(found) for view, found in sorted(errors.items())})
        node = self.session.read(f"/errors/{member}")
        if packed != (node[0] if node is not None else _NO_ERRORS):
            with self.session.errors():
                self._put(f"/errors/{member}", packed)

    def release(self, member: str) -> None:
        """Let somebody else be its home."""
        self._delete(f"/claims/{member}")

    def remove(self, member: str) -> None:
        """It is in no ring any more: nobody needs it."""
        for folder in ("members", "errors", "claims"):
            self._delete(f"/{folder}/{member}")

    def _delete(self, path: str) -> None:
        with self.session.errors():
            try:
                self.session.call("delete", path)
            except NoNodeError:
                return
            finally:
                self.session.forget(path)
                self.session.forget(path.rpartition("/")[0])


def no_other(there: Mapping[str, ManagerInfo], id_: str) -> str:
    """Why the manager `id_` cannot be beside those that are there."""
    if id_ == SINGLE:
        return f"View Managers run already ({', '.join(sorted(there.keys() - {id_}))})"
    return (
        f"a process that opened the database with manage=True is its View Manager ({there[SINGLE].address}), and none "
        f"can be beside it: close it there, then start {id_}"
    )
