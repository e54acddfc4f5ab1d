"""`vms manager run`: one View Manager as a process of its own, among others (docs/operations.md)."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from vms.config import ManagerConfig
from vms.errors import Conflict, UserError, VmsError
from vms.manager.backend import make_folder
from vms.manager.clustered import Clustered
from vms.manager.control import ControlServer
from vms.manager.control_client import ControlClient
from vms.manager.everywhere import SharedBoard
from vms.manager.exposition import MetricsServer
from vms.manager.hbase_backend import HBaseBackend, default_folder
from vms.manager.log import TransactionLog
from vms.manager.runtime import Runtime
from vms.manager.serving import Serving
from vms.manager.settler import Settler
from vms.ring.credentials import Credentials
from vms.ring.links import Links, Server
from vms.ring.membership import SINGLE, ManagerInfo, Membership, no_other
from vms.store.hbase_address import HBaseAddress

Say = Callable[[str], None]


class Daemon:
    """One View Manager: everything that it is made of, started by `start` and ended by `stop`."""

    def __init__(self, config: ManagerConfig, say: Say) -> None:
        self._config, self._say = config, say
        self._open = contextlib.ExitStack()
        #: Set when the manager has nothing to do any more.
        self.ended = threading.Event()

    def start(self) -> None:
        """Returns when members are hosted here and changes may come."""
        with contextlib.ExitStack() as undo:
            self._start(undo)
            self._open = undo.pop_all()

    def _start(self, undo: contextlib.ExitStack) -> None:
        config = self._config
        address = HBaseAddress.parse(config.store)
        home = Path(config.home or default_folder(address) / "manager")
        make_folder(home)
        self.id = config.id or _kept_id(home)
        log = open_transaction_log(config.log, home)
        backend = HBaseBackend(
            address,
            folder=home,
            log=log,
            listen=config.wal_listen,
            name=self.id,
            session_seconds=config.session_timeout,
        )
        undo.callback(backend.close)
        credentials = Credentials.read(config.tls) if config.tls else None
        membership = Membership(backend.session)
        secret = membership.secret()
        server = Server(config.listen, secret, credentials)
        undo.callback(server.close)
        control = ControlServer(server)
        server.start()
        client = ControlClient(secret, credentials)
        undo.callback(client.close)
        board = SharedBoard(backend.board, self.id, membership, client)
        backend.share_marks(board)
        metrics = MetricsServer(config.metrics) if config.metrics else None
        info = ManagerInfo(
            self.id,
            server.address,
            metrics=metrics.address if metrics is not None else "",
            log=log.identity if log is not None else "",
            room=config.members,
        )
        self._wait_until_forgotten(membership)
        neighbours = Clustered(
            backend.coordination,
            membership,
            server,
            Links(secret, credentials),
            info,
            rehost_timeout=config.rehost_timeout,
        )
        self.runtime = runtime = Runtime(
            backend.store,
            backend.source,
            backend.coordination,
            log,
            neighbours=neighbours,
            epoch_interval=config.epoch_interval,
            now_ms=backend.clock.now,
            on_end=self.ended.set,
        )
        runtime.start()
        undo.callback(runtime.stop)
        serving = Serving(self.id, runtime, neighbours, server, backend)
        control.answer({**serving.handlers(), "Marks": board.answer})
        backend.started(runtime)
        if metrics is not None:
            metrics.serve(serving)
            undo.callback(metrics.close)
        settler = Settler(serving.settle)
        undo.callback(settler.close)
        self.address = server.address
        self._say(f"View Manager {self.id} runs: links and control on {server.address}")

    def _wait_until_forgotten(self, membership: Membership) -> None:
        """A manager of this name that died a moment ago is still in ZooKeeper: its session has to expire first. So is
        one that was a process for itself, beside which none can be."""
        deadline = time.monotonic() + 2 * self._config.session_timeout + 5
        said = False
        while True:
            there = membership.managers()
            if SINGLE in there:
                name, refusal = "the process with manage=True", no_other(there, self.id)
            elif self.id in there or self.id in membership.claims().values():
                name, refusal = self.id, f"another View Manager {self.id} runs; give this one another --id"
            else:
                return
            if time.monotonic() > deadline:
                raise Conflict(refusal)
            if not said:
                self._say(f"waiting until ZooKeeper has forgotten the last run of {name}")
                said = True
            time.sleep(0.2)

    @property
    def failure(self) -> VmsError | None:
        """Why it ended by itself; None where it was drained."""
        return self.runtime.failed if not self.runtime.drained else None

    def stop(self) -> None:
        """Finish the epoch under way and let go of everything; the members are free for others at once."""
        self._open.close()


def open_transaction_log(place: str, home: Path) -> TransactionLog | None:
    """`off`, `local`, or a folder that others reach too (a path or a file:// URL)."""
    if place == "off":
        return None
    if place == "local":
        return TransactionLog(home / "log")
    scheme, _, _ = place.rpartition("://")
    if scheme not in ("", "file"):
        raise UserError(f"log {place!r} is not known; it is off, local, or a folder (PATH or file:///PATH)")
    folder = Path(urlsplit(place).path if scheme else place)
    make_folder(folder)
    return TransactionLog(folder)


def _kept_id(home: Path) -> str:
    """The name of the manager of this folder, made once."""
    path = home / "id"
    if not path.exists():
        name = "".join(c if c.isalnum() else "-" for c in socket.gethostname().split(".")[0])
        path.write_text(f"{name}-{secrets.token_hex(3)}")
    return path.read_text()


def notify(state: str) -> None:
    """Tell systemd, where it started us."""
    place = os.environ.get("NOTIFY_SOCKET")
    if place:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out, contextlib.suppress(OSError):
            out.connect("\0" + place[1:] if place.startswith("@") else place)
            out.sendall(state.encode())
