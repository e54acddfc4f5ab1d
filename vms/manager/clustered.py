"""A manager among others: who hosts what by ZooKeeper, messages by gRPC (design section 7).

A member is hosted by the manager that claims it. A manager claims what it can: members of a dead manager whose log it
reaches, and members of one that has more than its share of the same log; where nothing is left to claim, it makes a
member of its own and asks for it to be taken into the ring. Nobody decides for others, so nothing waits for a leader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from vms.errors import Conflict, StoreError
from vms.maintenance.codec import BadMessage, message_from_bytes, message_to_bytes
from vms.maintenance.messages import LEADER, Message
from vms.maintenance.record import Record
from vms.manager.neighbours import Errors, Letter, add_errors
from vms.ring.links import Links, Server
from vms.ring.membership import ManagerInfo, Membership
from vms.ring.session import State
from vms.ring.zookeeper import ZooKeeperCoordination

#: Seconds for which a member without a log may be without a home: what we read of ZooKeeper may be that old.
_GRACE = 2.0
#: Messages handled between two looks at everything else.
_LETTERS = 1000


class Clustered:
    """`Neighbours` over ZooKeeper and gRPC. `rehost_timeout`: seconds for which the home of a member whose log nobody
    reaches is waited for, before the views are rebuilt without it."""

    patience, direct = 1.0, True

    def __init__(
        self,
        coordination: ZooKeeperCoordination,
        membership: Membership,
        server: Server,
        links: Links,
        info: ManagerInfo,
        *,
        rehost_timeout: float = 120.0,
    ) -> None:
        self._coordination, self._membership = coordination, membership
        self._session, self._server, self.links = membership.session, server, links
        self._info, self._rehost_timeout = info, rehost_timeout
        self._joined = -1
        self._homeless_since: dict[str, float] = {}
        #: Members made here that are not in the ring yet: first their log has to vouch for what they cut.
        self._new: set[str] = set()
        #: Set by anybody: the members here shall go to others.
        self.draining = False

    # --- whether ---------------------------------------------------------------------------------------------

    def present(self) -> bool:
        return self._session.state is State.CONNECTED

    def incarnation(self) -> int:
        return self._session.incarnation

    def _join(self) -> bool:
        """Appear among the managers, again after a lost session; False while ZooKeeper remembers the old one."""
        incarnation = self._session.incarnation
        if self._joined != incarnation:
            try:
                self._membership.join(self._info)
            except Conflict:
                if self._joined < 0:
                    raise
                return False
            self._joined = incarnation
        return True

    # --- who hosts what --------------------------------------------------------------------------------------

    def assigned(self, record: Record, hosted: set[str]) -> set[str]:
        if not self._join():
            return set()
        needed = self._needed(record)
        claims = self._membership.claims()
        mine = {member for member, home in claims.items() if home == self._info.id}
        mine |= self._claim_homeless(needed - claims.keys())
        self._change_ring(needed, mine, claims)
        self._new &= mine
        wanted = mine & (needed | self._wanted_ring() | self._new)
        if record.committed and len(wanted) > self._info.room and self._somebody_has_room(claims):
            surplus = max(wanted)
            wanted.discard(surplus)
            if surplus not in hosted:
                self._membership.release(surplus)
        return wanted

    def _needed(self, record: Record) -> set[str]:
        """Members that the epoch under way or a later one cannot do without."""
        versions = {record.ring} if record.committed else {record.ring, record.previous_ring}
        members = {m for version in versions if version for m in self._coordination.ring(version).members}
        return members | self._wanted_ring()

    def _wanted_ring(self) -> set[str]:
        newest = self._coordination.newest_ring()
        return set(self._coordination.ring(newest).members) if newest else set()

    def _claim_homeless(self, homeless: set[str]) -> set[str]:
        """Claim members of dead managers whose log is here, each by whoever has most room."""
        if not self._info.log or not homeless:
            return set()
        logs = self._membership.members()
        reachable = sorted(m for m in homeless if logs.get(m) == self._info.log)
        managers = [m for m in self._membership.managers().values() if m.log == self._info.log and not m.draining]
        load = {m.id: len(m.members) - m.room for m in managers}
        taken = set()
        for member in reachable:
            home = min(load, key=lambda id_: (load[id_], id_), default=self._info.id)
            load[home] = load.get(home, 0) + 1
            if home == self._info.id and self._membership.claim(member, self._info.log):
                taken.add(member)
        return taken

    def _change_ring(self, needed: set[str], mine: set[str], claims: Mapping[str, str]) -> None:
        """Make a member where this manager has room, and take them all out where it is drained. A new one is asked for
        in the ring when it is hosted: a member of the ring without a log would count as one whose state is lost."""
        if self.draining:
            self._coordination.change_members(remove=mine)
            return
        known = self._membership.members()
        homeless = any(known.get(m) == self._info.log for m in needed - claims.keys() - mine) and bool(self._info.log)
        if len(mine) >= self._info.room or homeless or self._somebody_has_too_many(claims):
            return
        ring = self._wanted_ring()
        number = next(n for n in range(1, 1 << 30) if f"{self._info.id}-{n}" not in known.keys() | ring)
        member = f"{self._info.id}-{number}"
        if self._membership.claim(member, self._info.log):
            mine.add(member)
            self._new.add(member)

    def _rivals(self) -> dict[str, ManagerInfo]:
        """Other managers of the same log."""
        managers = self._membership.managers() if self._info.log else {}
        return {id_: m for id_, m in managers.items() if m.log == self._info.log and id_ != self._info.id}

    def _somebody_has_room(self, claims: Mapping[str, str]) -> bool:
        homes = list(claims.values())
        return any(homes.count(id_) < m.room and not m.draining for id_, m in self._rivals().items())

    def _somebody_has_too_many(self, claims: Mapping[str, str]) -> bool:
        homes = list(claims.values())
        return any(homes.count(id_) > m.room for id_, m in self._rivals().items())

    def hosting(self, members: set[str], record: Record) -> None:
        needed = self._needed(record)
        for member, home in self._membership.claims().items():
            if home == self._info.id and member not in members:
                if member in needed:
                    self._membership.release(member)
                else:
                    self._membership.remove(member)
        if self._membership.info is not None:
            info = replace(self._info, members=tuple(sorted(members)), draining=self.draining)
            self._membership.update(info)
        ready, self._new = self._new & members, self._new - members
        if ready:
            self._coordination.change_members(add=ready)

    # --- the lead --------------------------------------------------------------------------------------------

    def leads(self) -> bool:
        return self._membership.leads()

    def lost(self, record: Record) -> str | None:
        claims, logs = self._membership.claims(), self._membership.members()
        homeless = self._needed(record) - claims.keys()
        now = time.monotonic()
        self._homeless_since = {m: self._homeless_since.get(m, now) for m in homeless}
        for member in sorted(homeless):
            patience = self._rehost_timeout if logs.get(member) else _GRACE
            if now - self._homeless_since[member] < patience:
                continue
            if self._coordination.change_members(remove=[member]) is None and member in self._wanted_ring():
                continue  # nobody else is there: wait for somebody
            self._membership.remove(member)
            if member in self._coordination.ring(record.ring or self._coordination.newest_ring()):
                return member
        return None

    # --- messages --------------------------------------------------------------------------------------------

    def send(self, sender: str, receiver: str, message: Message) -> None:
        managers = self._membership.managers()
        self.links.keep({m.address for m in managers.values()})
        if receiver == LEADER:
            leader = self._membership.leader()
            homes = [managers[leader]] if leader in managers else []
        else:
            homes = [m for m in managers.values() if receiver in m.members]
        payload = message_to_bytes(message) if homes else b""
        for home in homes:
            self.links.send(home.address, sender, receiver, payload)

    def receive(self) -> Iterator[Letter]:
        known: Mapping[str, str] | None = None
        for _ in range(_LETTERS):
            arrived = self._server.inbox.take()
            if arrived is None:
                return
            known = self._membership.members() if known is None else known
            if arrived.sender not in known:
                self._server.refuse("sender")
                continue
            try:
                message = message_from_bytes(arrived.payload)
            except BadMessage:
                self._server.refuse("message")
                continue
            yield Letter(arrived.sender, arrived.receiver, message)

    # --- the rest --------------------------------------------------------------------------------------------

    def tell_errors(self, mine: Mapping[str, Errors]) -> Errors:
        for member, errors in mine.items():
            self._membership.tell_errors(member, errors)
        return add_errors(self._membership.errors())

    def finished(self, hosted: set[str]) -> bool:
        return self.draining and not hosted

    def on_news(self, wake: Callable[[], None]) -> None:
        self._session.on_change(wake)
        self._server.wake = wake

    def close(self) -> None:
        with suppress(StoreError):  # what is left vanishes with the session
            self._membership.leave()
        self.links.close()
        self._server.close()
