"""Where an HBase is: its Thrift gateway, and the ZooKeeper that knows the rest of it.

hbase:HOST:PORT                                         ZooKeeper from hbase-site.xml in HBASE_CONF_DIR, or on HOST
hbase:HOST:PORT?zookeeper=Z1,Z2:2181&znode=/hbase       said outright
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from vms.errors import UserError

#: The port of the Thrift gateway where none is given.
THRIFT_PORT = 9090
_ZOOKEEPER_PORT = "2181"
_EXAMPLE = "write hbase:HOST:PORT, for example hbase:localhost:9090?zookeeper=localhost:2181"


class HBaseAddress(NamedTuple):
    """`zookeeper` is HOST:PORT, or HOST,HOST,...:PORT."""

    host: str
    port: int
    zookeeper: str
    znode: str = "/hbase"

    @staticmethod
    def parse(text: str) -> HBaseAddress:
        kind, _, rest = text.partition(":")
        place, _, query = rest.partition("?")
        host, _, port = place.rpartition(":") if ":" in place else (place, "", str(THRIFT_PORT))
        options = dict(parse_qsl(query))
        if kind != "hbase" or not host or not port.isdigit() or not options.keys() <= {"zookeeper", "znode"}:
            raise UserError(f"{text!r} is no address of an HBase; {_EXAMPLE}")
        site = _site()
        quorum = site.get("hbase.zookeeper.quorum", host)
        known = f"{quorum}:{site.get('hbase.zookeeper.property.clientPort', _ZOOKEEPER_PORT)}"
        zookeeper = options.get("zookeeper", known)
        if ":" not in zookeeper:
            zookeeper = f"{zookeeper}:{_ZOOKEEPER_PORT}"
        znode = options.get("znode", site.get("zookeeper.znode.parent", "/hbase"))
        return HBaseAddress(host.strip("[]"), int(port), zookeeper, znode)

    def __str__(self) -> str:
        znode = "" if self.znode == "/hbase" else f"&znode={self.znode}"
        return f"hbase:{self.host}:{self.port}?zookeeper={self.zookeeper}{znode}"

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
