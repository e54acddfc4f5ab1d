"""The development cluster: real HBase in processes of its own, on the loopback interface, in one folder.

    F/cluster.json     its ports and the number of region servers
    F/conf/            hbase-site.xml and the rest, for its processes and for any HBase client
    F/data/            what HBase and ZooKeeper keep
    F/logs/, F/run/    a log and a process id each

Nothing leaves the folder but the jars, which are in a cache (vms/store/java.py). Every process is one that can be
killed: a test ends a region server with SIGKILL and starts it again.
"""

from __future__ import annotations

import json
import shutil
import signal
import string
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vms.devcluster.process import Process, port_in_use
from vms.errors import StoreError, StoreUnavailable, UserError
from vms.store.hbase_address import HBaseAddress
from vms.store.java import Say, deployed, hbase_jars, java, locked

#: The first of the cluster's ports: far from the defaults of HBase, below the ports that systems give away.
DEFAULT_PORT_BASE = 22_180
#: Ports between the first and that of the first region server.
_REGION_SERVERS_FROM = 10
#: How long a start may take. A cluster that was killed replays its logs for about a minute on two busy cores.
_START_SECONDS = 240.0
#: A clean end takes about 25 seconds: regions are flushed and closed.
_STOP_SECONDS = 90.0


@dataclass(frozen=True)
class Ports:
    """The ports of the cluster, from one number."""

    base: int

    @property
    def zookeeper(self) -> int:
        return self.base

    @property
    def thrift(self) -> int:
        return self.base + 1

    @property
    def master(self) -> int:
        return self.base + 2

    def region_server(self, number: int) -> int:
        """Of region server 1, 2, ..."""
        return self.base + _REGION_SERVERS_FROM + number


def _quiet(_: str) -> None:
    pass


class DevCluster:
    """The cluster of one folder. Its state is in the folder: any process may stop what another one started."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()

    # ------------------------------------------------------------------ what is there

    @property
    def exists(self) -> bool:
        return self._settings_file.exists()

    @property
    def ports(self) -> Ports:
        return Ports(self._settings()["port_base"])

    @property
    def region_servers(self) -> int:
        return self._settings()["region_servers"]

    @property
    def conf(self) -> Path:
        """The folder with hbase-site.xml: HBASE_CONF_DIR for other clients."""
        return self.folder / "conf"

    @property
    def address(self) -> HBaseAddress:
        """What `vms --store` takes, as text."""
        return HBaseAddress("127.0.0.1", self.ports.thrift, f"127.0.0.1:{self.ports.zookeeper}")

    def processes(self) -> list[Process]:
        """All that belong to the cluster, in the order in which they are started."""
        ports, conf = self.ports, str(self.conf)
        hbase = "org.apache.hadoop.hbase"
        thrift = (f"{hbase}.thrift.ThriftServer", "start", "-p", str(ports.thrift), "-b", "127.0.0.1")
        found = [
            self._process("zookeeper", ports.zookeeper, "128m", (_ZOOKEEPER, f"{conf}/zoo.cfg")),
            self._process("master", ports.master, "256m", (f"{hbase}.master.HMaster", "start"), _MASTER_READY),
            *(self._region_server(number) for number in range(1, self.region_servers + 1)),
            self._process("thrift", ports.thrift, "256m", (*thrift, "--infoport", "-1", "-threadpool")),
        ]
        return found

    def process(self, name: str) -> Process:
        """The process of this name: zookeeper, master, regionserver-1, ..., thrift."""
        found = {process.name: process for process in self.processes()}
        if name not in found:
            raise UserError(f"there is no process {name}; there are {', '.join(found)}")
        return found[name]

    def is_up(self) -> bool:
        """Whether every process lives and the gateway listens."""
        return self.exists and all(p.pid() is not None for p in self.processes()) and port_in_use(self.ports.thrift)

    # ------------------------------------------------------------------ start and stop

    def up(self, region_servers: int | None = None, port_base: int | None = None, say: Say = _quiet) -> None:
        """Start what does not run, and wait until the cluster answers. Quick if everything runs.

        What this call started is ended again if it fails.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / "up.lock"):
            surplus = self._configure(region_servers, port_base)
            for process in surplus:
                say(f"{process.name}: stopping")
                process.signal(signal.SIGTERM)
                process.stop(_STOP_SECONDS)
            missing = [process for process in self.processes() if process.pid() is None]
            if missing:
                self._start(missing, say)
            else:
                deadline = time.monotonic() + _START_SECONDS
                self._wait_for(_answers(self.ports.thrift), "the Thrift gateway", deadline, self.processes())

    def start(self, name: str, say: Say = _quiet) -> None:
        """Start one process that was stopped or killed, and wait until it is ready."""
        process = self.process(name)
        if process.pid() is None:
            self._start([process], say)

    def kill(self, name: str) -> None:
        """End one process as a crash would: SIGKILL."""
        process = self.process(name)
        process.signal(signal.SIGKILL)
        process.stop(5)

    def down(self, *, now: bool = False, delete: bool = False, say: Say = _quiet) -> None:
        """Stop every process: cleanly, or (`now`) at once, which the next start pays for. Then delete the data."""
        if self.exists:
            processes = {process.name: process for process in self.processes()}
            thrift, zookeeper = processes.pop("thrift"), processes.pop("zookeeper")
            for group in ([thrift], list(processes.values()), [zookeeper]):
                self._stop(group, now, say)
        if delete:
            shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------------ inside

    @property
    def _settings_file(self) -> Path:
        return self.folder / "cluster.json"

    def _settings(self) -> dict[str, int]:
        if not self.exists:
            raise UserError(f"there is no cluster in {self.folder}: start one with vms hbase dev up")
        return json.loads(self._settings_file.read_text())

    def _process(
        self, name: str, port: int, heap: str, command: tuple[str, ...], ready_line: str | None = None
    ) -> Process:
        return Process(self.folder, name, port, heap, command, ready_line)

    def _region_server(self, number: int) -> Process:
        port = self.ports.region_server(number)
        command = (
            "org.apache.hadoop.hbase.regionserver.HRegionServer",
            f"-Dhbase.regionserver.port={port}",
            "start",
        )
        return self._process(f"regionserver-{number}", port, "512m", command, _REGION_SERVER_READY)

    def _configure(self, region_servers: int | None, port_base: int | None) -> list[Process]:
        """Write settings and configuration; returns the region servers that are too many now."""
        old = self._settings() if self.exists else {"region_servers": 1, "port_base": DEFAULT_PORT_BASE}
        count, base = region_servers or old["region_servers"], port_base or old["port_base"]
        running = [p for p in self.processes() if p.pid() is not None] if self.exists else []
        if running and base != old["port_base"]:
            raise UserError("the cluster runs on other ports: stop it first with vms hbase dev down")
        surplus = [self._region_server(number) for number in range(count + 1, old["region_servers"] + 1)]
        self._settings_file.write_text(json.dumps({"region_servers": count, "port_base": base}))
        self.conf.mkdir(exist_ok=True)
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        values = {"data": data, "zookeeper_port": self.ports.zookeeper, "master_port": self.ports.master}
        for name in ("hbase-site.xml", "zoo.cfg", "log4j2.properties"):
            text = deployed(f"hbase/{name}").read_text()
            (self.conf / name).write_text(string.Template(text).safe_substitute(values))
        return surplus

    def _start(self, missing: list[Process], say: Say) -> None:
        """Start these, ZooKeeper before the rest, and wait for each."""
        program, jars = java(), hbase_jars(say)
        classpath = f"{self.conf}:{jars}/*"
        begin = time.monotonic()
        deadline = begin + _START_SECONDS
        started: list[Process] = []
        try:
            for process in missing:
                process.start(program, classpath)
                started.append(process)
                if process.name == "zookeeper":
                    self._wait_for(process.is_ready, process.name, deadline, started)
            for process in started:
                self._wait_for(process.is_ready, process.name, deadline, started)
                say(f"{process.name}: ready after {time.monotonic() - begin:.0f} s")
            if any(process.name == "thrift" for process in started):
                self._wait_for(_answers(self.ports.thrift), "the Thrift gateway", deadline, started)
                say(f"the cluster answers after {time.monotonic() - begin:.0f} s")
        except BaseException:
            self._stop(started, True, _quiet)
            raise

    def _stop(self, group: Iterable[Process], now: bool, say: Say) -> None:
        running = [process for process in group if process.pid() is not None]
        for process in running:
            process.signal(signal.SIGKILL if now else signal.SIGTERM)
        for process in running:
            process.stop(_STOP_SECONDS)
            say(f"{process.name}: stopped")

    def _wait_for(self, condition: Callable[[], bool], what: str, deadline: float, watched: Sequence[Process]) -> None:
        """Poll; the death of one of `watched` ends the waiting."""
        while not condition():
            for process in watched:
                process.check_alive()
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"{what} was not ready after {_START_SECONDS:.0f} s; see {self.folder}/logs")
            time.sleep(0.1)


_ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_MASTER_READY = "Master has completed initialization"
_REGION_SERVER_READY = "Serving as localhost"


def _answers(thrift_port: int) -> Callable[[], bool]:
    """Whether the gateway reaches HBase: it lists the tables."""
    from vms.store.thrift import Gateway

    def answers() -> bool:
        gateway = Gateway("127.0.0.1", thrift_port, timeout=20)
        try:
            gateway.call(lambda client: client.getTableNames(), patience=0)
        except StoreError:
            return False
        finally:
            gateway.close()
        return True

    return answers
