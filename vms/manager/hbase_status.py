"""How HBase's side of the stream stands: the logs kept for us, and how far they are read, as ZooKeeper tells it.

/hbase/replication/rs/SERVER/PEER            the logs that this server ships, each with the position reached
/hbase/replication/rs/SERVER/PEER-DEAD,...   those of a server that died, which it has taken over

How large they are only HBase's file system tells, to whoever reaches it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

from vms.errors import VmsError
from vms.manager.hbase_attachment import Attachments
from vms.ring.peer import peer_servers
from vms.ring.session import NoNodeError, Session
from vms.store import hbase_commands as commands
from vms.store.hbase import HBaseStore

_MAGIC = b"PBUF"


def hbase_status(attachments: Attachments) -> dict[str, Any]:
    """Plain values. `wal`: all of HBase's log files by their writer, in bytes: those that are in use, and the archived
    ones; None where the file system is not reached from here, and `wal_unknown` says why. `bytes` of a queue: of its
    files."""
    state = attachments.state()
    with closing(Session(attachments.address.zookeeper_hosts, attachments.address.znode)) as hbase:
        queues = _queues(hbase, state.peer) if state.peer else []
        files, unknown = _files(attachments.store)
        sizes = {file["log"]: file["bytes"] for file in files}
        logs = [_queue(hbase, queue) | {"bytes": None if unknown else _sum(sizes, queue)} for queue in queues]
    return {
        "peer": state.peer,
        "tables": sorted(state.tables),
        "managers": peer_servers(attachments.session),
        "logs": logs,
        "wal": None if unknown else _by_server(files),
        "wal_unknown": unknown,
    }


def _files(store: HBaseStore) -> tuple[list[dict[str, Any]], str]:
    """The log files of HBase, or why they cannot be seen."""
    if not os.environ.get("HBASE_CONF_DIR"):
        return [], "set HBASE_CONF_DIR to the folder with HBase's hbase-site.xml, which says where its files are"
    try:
        return store.admin.run(commands.wal_files()), ""
    except VmsError as problem:
        return [], f"the file system of HBase is not reached from here: {problem}"


def _by_server(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        server = found.setdefault(file["server"], {"server": file["server"], "used_bytes": 0, "archived_bytes": 0})
        server["archived_bytes" if file["old"] else "used_bytes"] += file["bytes"]
    return [found[server] for server in sorted(found)]


class _Queue(NamedTuple):
    """`of`: the server that wrote the logs, where that one is dead."""

    server: str
    of: str
    path: str
    logs: list[str]


def _sum(sizes: Mapping[str, int], queue: _Queue) -> int:
    """A file that HBase has removed since counts nothing."""
    return sum(sizes.get(log, 0) for log in queue.logs)


def retained_logs(hbase: Session, peer: str) -> list[dict[str, Any]]:
    """The queues of write-ahead logs that HBase keeps for this peer.

    `logs`: how many files; the last one is being written, so more than one is a backlog. `position`: bytes of the
    first one that we have acknowledged. `of`: the server that wrote them, where that one is dead.
    """
    return [_queue(hbase, queue) for queue in _queues(hbase, peer)]


def _queue(hbase: Session, queue: _Queue) -> dict[str, Any]:
    position = _position(hbase, f"{queue.path}/{queue.logs[0]}") if queue.logs else 0
    return {"server": queue.server, "of": queue.of, "logs": len(queue.logs), "position": position}


def _queues(hbase: Session, peer: str) -> list[_Queue]:
    found = []
    for server in _children(hbase, "/replication/rs"):
        for queue in _children(hbase, f"/replication/rs/{server}"):
            name, _, dead = queue.partition("-")
            if name == peer:
                path = f"/replication/rs/{server}/{queue}"
                found.append(_Queue(server, dead, path, _children(hbase, path)))
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
