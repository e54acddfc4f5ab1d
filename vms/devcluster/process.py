"""One Java process of the cluster: started in a session of its own, found again by its process id.

A process id alone may belong to somebody else after a while; so every process carries a mark of folder and name
on its command line, and only one that carries it is ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from vms.errors import StoreUnavailable, UserError

_OPENED = ("java.io", "java.nio", "sun.nio.ch", "java.lang", "jdk.internal.ref", "java.lang.reflect", "java.util")
_EXPORTED = (
    "java.base/jdk.internal.misc",
    "java.base/sun.net.dns",
    "java.base/sun.net.util",
    "java.security.jgss/sun.security.krb5",
)
#: What HBase 2.6 needs on Java 17. The serial collector keeps small heaps small.
JAVA_FLAGS = (
    "-XX:+UseSerialGC",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
    "--add-modules=jdk.unsupported",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*_OPENED, "java.util.concurrent")),
    *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTED),
)


@dataclass(frozen=True)
class Process:
    """A process of the cluster in `folder`: how to start it, where its log is, whether it lives."""

    folder: Path
    name: str
    port: int
    heap: str
    command: tuple[str, ...]
    #: A line of the log that says that it can be used.
    ready_line: str | None = None

    @property
    def log(self) -> Path:
        return self.folder / "logs" / f"{self.name}.log"

    @property
    def _pid_file(self) -> Path:
        return self.folder / "run" / f"{self.name}.pid"

    @property
    def _mark(self) -> str:
        return f"-Dvms.dev.process={self.folder}/{self.name}"

    def pid(self) -> int | None:
        """Its process id, if it lives."""
        try:
            pid = int(self._pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)  # one that this process started and that has ended is collected
        return pid if self._mark in _command_line(pid) else None

    def start(self, java: str, classpath: str) -> None:
        """Start it; the log of the last run stays beside the new one. Raises where its port is taken."""
        if port_in_use(self.port):
            raise UserError(
                f"port {self.port} for {self.name} is taken by another program: choose another place with --port-base"
            )
        for folder in (self.log.parent, self._pid_file.parent):
            folder.mkdir(parents=True, exist_ok=True)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        command = [
            java,
            f"-Xmx{self.heap}",
            *JAVA_FLAGS,
            f"-XX:ErrorFile={self.log}.crash",
            self._mark,
            "-cp",
            classpath,
            *self.command,
        ]
        with self.log.open("wb") as log, open(os.devnull, "rb") as nothing:
            streams = [(os.POSIX_SPAWN_DUP2, file.fileno(), n) for n, file in enumerate((nothing, log, log))]
            pid = os.posix_spawnp(java, command, os.environ, file_actions=streams, setsid=True)
        self._pid_file.write_text(str(pid))

    def check_alive(self) -> None:
        """Raises if it does not live, with the last problem of its log."""
        if self.pid() is None:
            raise StoreUnavailable(f"{self.name} has died; its log is {self.log}{self._last_problem()}")

    def is_ready(self) -> bool:
        """Whether it can be used."""
        if self.ready_line is None:
            return port_in_use(self.port)
        return self.ready_line in self.log.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal; False if it does not live."""
        pid = self.pid()
        if pid is None:
            return False
        os.kill(pid, number)
        return True

    def stop(self, seconds: float) -> None:
        """Wait for an end that was asked for; kill it when the time is over."""
        deadline = time.monotonic() + seconds
        while self.pid() is not None:
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
                deadline += 5
            time.sleep(0.05)
        self._pid_file.unlink(missing_ok=True)

    def memory_mb(self) -> int:
        """Resident memory, where the system tells it."""
        try:
            lines = Path(f"/proc/{self.pid()}/status").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS")), 0)

    def tail(self, lines: int) -> list[str]:
        """The last lines of its log."""
        if not self.log.exists():
            return []
        return self.log.read_text(errors="replace").splitlines()[-lines:]

    def _last_problem(self) -> str:
        problems = [line for line in self.tail(400) if " ERROR " in line or line.startswith(("Error", "Exception"))]
        return f"\n{problems[-1]}" if problems else ""


def port_in_use(port: int) -> bool:
    """Whether something listens on this port of the loopback interface."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _command_line(pid: int) -> str:
    """The command line of a process; empty if it is gone or only waits to be collected."""
    if not Path("/proc/self").exists():
        return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True).stdout
    try:
        # while a program replaces itself by another (the Java launcher does) it has no command line for a moment
        while not (line := Path(f"/proc/{pid}/cmdline").read_bytes()) and not _ended(pid):
            time.sleep(0.005)
    except OSError:
        return ""
    return line.replace(b"\0", b" ").decode(errors="replace")


def _ended(pid: int) -> bool:
    """Whether the process only waits to be collected (or is of the kernel, and has no command line ever)."""
    state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    return state in "ZX" or parent in ("0", "2")
