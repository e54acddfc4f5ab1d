"""How HBase's side of the stream stands, as ZooKeeper tells it: the logs kept for us, and how far they are read.

/hbase/replication/rs/SERVER/PEER            the logs that this server ships, each with the position reached
/hbase/replication/rs/SERVER/PEER-DEAD,...   those of a server that died, which it has taken over
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from vms.manager.hbase_attachment import Attachments
from vms.ring.peer import peer_servers
from vms.ring.session import NoNodeError, Session

_MAGIC = b"PBUF"


def hbase_status(attachments: Attachments) -> dict[str, Any]:
    """Plain values."""
    state = attachments.state()
    with closing(Session(attachments.address.zookeeper_hosts, attachments.address.znode)) as hbase:
        logs = retained_logs(hbase, state.peer) if state.peer else []
    return {
        "peer": state.peer,
        "tables": sorted(state.tables),
        "managers": peer_servers(attachments.session),
        "logs": logs,
    }


def retained_logs(hbase: Session, peer: str) -> list[dict[str, Any]]:
    """The queues of write-ahead logs that HBase keeps for this peer.

    `logs`: how many files; the last one is being written, so more than one is a backlog. `position`: bytes of the
    first one that we have acknowledged. `of`: the server that wrote them, where that one is dead.
    """
    found = []
    for server in _children(hbase, "/replication/rs"):
        for queue in _children(hbase, f"/replication/rs/{server}"):
            name, _, dead = queue.partition("-")
            if name != peer:
                continue
            path = f"/replication/rs/{server}/{queue}"
            logs = _children(hbase, path)
            position = _position(hbase, f"{path}/{logs[0]}") if logs else 0
            found.append({"server": server, "of": dead, "logs": len(logs), "position": position})
    return found


def _children(hbase: Session, path: str) -> list[str]:
    with hbase.errors():
        try:
            return sorted(hbase.call("get_children", path))
        except NoNodeError:
            return []


def _position(hbase: Session, path: str) -> int:
    with hbase.errors():
        try:
            data = hbase.call("get", path)[0]
        except NoNodeError:
            return 0
    return position_of(data)


def position_of(data: bytes) -> int:
    """The position in a node of HBase's: a prefix of its client (FF, length, name), PBUF, {1: position}."""
    if data[:1] == b"\xff":
        data = data[5 + int.from_bytes(data[1:5], "big") :]
    if not data.startswith(_MAGIC) or data[4:5] != b"\x08":
        return 0
    position = shift = 0
    for byte in data[5:]:
        position |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return position
