"""The View Managers as a cluster that HBase replicates to: what it looks for in ZooKeeper (docs/hbase-stream.md).

    /vms/peer/hbaseid                    names the cluster
    /vms/peer/rs/HOST,PORT,STARTCODE     a region server of it: where a View Manager takes entries

The second hangs on the session of its manager. HBase chooses anew among those that are there when one vanishes, and
waits while there is none.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable

from vms.errors import StoreError
from vms.ring.session import NodeExistsError, NoNodeError, Session, State

_LOG = logging.getLogger("vms.ring")
_ID, _SERVERS = "/peer/hbaseid", "/peer/rs"
#: Between two attempts to appear in ZooKeeper.
_PAUSE_SECONDS = 0.5


def prepare_peer(session: Session) -> None:
    """Make the nodes by which HBase knows a cluster, unless they are there."""
    with session.errors():
        session.client.ensure_path(_SERVERS)
        with contextlib.suppress(NodeExistsError):
            session.call("create", _ID, str(uuid.uuid4()).encode())


def peer_servers(session: Session) -> list[str]:
    """The View Managers that take entries now, as HOST,PORT,STARTCODE."""
    with session.errors(), contextlib.suppress(NoNodeError):
        return sorted(session.call("get_children", _SERVERS))
    return []


def remove_peer_nodes(session: Session) -> None:
    """Nothing of the peer is left."""
    with session.errors(), contextlib.suppress(NoNodeError):
        session.client.delete("/peer", recursive=True)


class Presence:
    """What has to be done once for each session: at the start, and again whenever a session was lost."""

    def __init__(self, session: Session, appear: Callable[[], None]) -> None:
        """`appear` may raise StoreError: then it is tried again, but for the first time."""
        self._session, self._appear = session, appear
        self._changed, self._closed = threading.Event(), False
        self._seen = session.incarnation
        appear()
        session.on_change(self._changed.set)
        self._thread = threading.Thread(target=self._keep, name="vms-presence", daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        while not self._closed:
            self._changed.wait()
            self._changed.clear()
            while not self._closed and self._seen != self._session.incarnation:
                incarnation = self._session.incarnation
                try:
                    if self._session.state is State.CONNECTED:
                        self._appear()
                        self._seen = incarnation
                        continue
                except StoreError as error:
                    _LOG.info("not in ZooKeeper again yet: %s", error)
                self._changed.wait(_PAUSE_SECONDS)
                self._changed.clear()

    def close(self) -> None:
        self._closed = True
        self._changed.set()
        self._thread.join()


class PeerServer:
    """One region server of the peer cluster, as long as it is open."""

    def __init__(self, session: Session, host: str, port: int) -> None:
        self._session = session
        self.name = f"{host},{port},{time.time_ns() // 1_000_000}"
        prepare_peer(session)
        self._presence = Presence(session, self._appear)

    def _appear(self) -> None:
        with self._session.errors(), contextlib.suppress(NodeExistsError):
            self._session.call("create", f"{_SERVERS}/{self.name}", b"", ephemeral=True)

    def close(self) -> None:
        """HBase sends nothing more here."""
        self._presence.close()
        with contextlib.suppress(StoreError), self._session.errors(), contextlib.suppress(NoNodeError):
            self._session.call("delete", f"{_SERVERS}/{self.name}")
