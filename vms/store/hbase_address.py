"""Where an HBase is: its Thrift gateway, and the ZooKeeper that knows the rest of it.

hbase:HOST:PORT                                         ZooKeeper from hbase-site.xml in HBASE_CONF_DIR, or on HOST
hbase:HOST:PORT?zookeeper=Z1,Z2:2181&znode=/hbase       said outright
hbase:HOST:PORT?root=/vms                               where VMS keeps its own nodes in that ZooKeeper
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from vms.errors import UserError

#: The port of the Thrift gateway where none is given.
THRIFT_PORT = 9090
_ZOOKEEPER_PORT = "2181"
_OPTIONS = {"zookeeper", "znode", "root"}
#: One name: it also names the replication peer, in which HBase allows no more than these.
_ROOT = re.compile(r"/[A-Za-z][A-Za-z0-9_]*")
_EXAMPLE = "write hbase:HOST:PORT, for example hbase:localhost:9090?zookeeper=localhost:2181"


class HBaseAddress(NamedTuple):
    """`zookeeper` is HOST:PORT, or HOST,HOST,...:PORT; `znode` is HBase's in it, `root` ours."""

    host: str
    port: int
    zookeeper: str
    znode: str = "/hbase"
    root: str = "/vms"

    @staticmethod
    def parse(text: str) -> HBaseAddress:
        kind, _, rest = text.partition(":")
        place, _, query = rest.partition("?")
        host, _, port = place.rpartition(":") if ":" in place else (place, "", str(THRIFT_PORT))
        options = dict(parse_qsl(query))
        if kind != "hbase" or not host or not port.isdigit() or not options.keys() <= _OPTIONS:
            raise UserError(f"{text!r} is no address of an HBase; {_EXAMPLE}")
        site = _site()
        quorum = site.get("hbase.zookeeper.quorum", host)
        known = f"{quorum}:{site.get('hbase.zookeeper.property.clientPort', _ZOOKEEPER_PORT)}"
        zookeeper = options.get("zookeeper", known)
        if ":" not in zookeeper:
            zookeeper = f"{zookeeper}:{_ZOOKEEPER_PORT}"
        znode = options.get("znode", site.get("zookeeper.znode.parent", "/hbase"))
        root = options.get("root", "/vms")
        if not _ROOT.fullmatch(root):
            raise UserError(f"root {root!r} is no place for VMS in ZooKeeper; write a name as in root=/vms")
        return HBaseAddress(host.strip("[]"), int(port), zookeeper, znode, root)

    def __str__(self) -> str:
        znode = "" if self.znode == "/hbase" else f"&znode={self.znode}"
        root = "" if self.root == "/vms" else f"&root={self.root}"
        return f"hbase:{self.host}:{self.port}?zookeeper={self.zookeeper}{znode}{root}"

    @property
    def zookeeper_hosts(self) -> str:
        """HOST:PORT,HOST:PORT,..."""
        hosts, _, port = self.zookeeper.rpartition(":")
        return ",".join(host if ":" in host else f"{host}:{port}" for host in hosts.split(","))

    @property
    def client_settings(self) -> dict[str, str]:
        """For a Java client of this HBase."""
        quorum, _, port = self.zookeeper.rpartition(":")
        return {
            "hbase.zookeeper.quorum": quorum,
            "hbase.zookeeper.property.clientPort": port,
            "zookeeper.znode.parent": self.znode,
        }


def _site() -> dict[str, str]:
    """The settings of hbase-site.xml in HBASE_CONF_DIR, if there is one."""
    folder = os.environ.get("HBASE_CONF_DIR")
    path = Path(folder, "hbase-site.xml") if folder else None
    if path is None or not path.exists():
        return {}
    found = ElementTree.parse(path).getroot().iter("property")
    return {p.findtext("name", "").strip(): p.findtext("value", "").strip() for p in found}
