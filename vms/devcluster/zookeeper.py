"""A ZooKeeper alone, real and on the loopback interface: for tests of what needs no HBase."""

from __future__ import annotations

import signal
import socket
import string
import time
from pathlib import Path

from vms.devcluster.process import Process
from vms.errors import StoreUnavailable
from vms.store.java import Say, deployed, hbase_jars, java

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
#: How long a start may take on a machine that is busy with other things.
_START_SECONDS = 60.0


class DevZooKeeper:
    """One process with its data in `folder`; it can be killed and started again with what it knew."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self._process = Process(folder, "zookeeper", port, "128m", (_MAIN, str(folder / "conf" / "zoo.cfg")))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def up(self, say: Say = lambda _: None) -> None:
        """Start it if it does not run, and wait until it serves."""
        if self._process.pid() is None:
            conf = self.folder / "conf"
            conf.mkdir(parents=True, exist_ok=True)
            values = {"data": self.folder, "zookeeper_port": self.port}
            for name in ("zoo.cfg", "log4j2.properties"):
                text = deployed(f"hbase/{name}").read_text()
                (conf / name).write_text(string.Template(text).safe_substitute(values))
            self._process.start(java(), f"{conf}:{hbase_jars(say)}/*")
        deadline = time.monotonic() + _START_SECONDS
        while not self.serves():
            self._process.check_alive()
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"ZooKeeper was not ready after {_START_SECONDS:.0f} s; see {self._process.log}")
            time.sleep(0.05)

    def serves(self) -> bool:
        """Whether it says that it is well."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.signal(signal.SIGKILL)
        self._process.stop(5)

    def pause(self) -> None:
        """Let it hang: connections stay open and nothing is answered."""
        self._process.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.signal(signal.SIGCONT)
