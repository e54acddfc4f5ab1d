"""The Java helper (deploy/hbase-plugin): one process that does what the Thrift gateway cannot.

Started with the first command (a Java client needs some seconds to begin) and kept until `close`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from threading import Lock
from typing import Any

from vms.errors import AlreadyExists, InvalidValue, StoreError, StoreUnavailable, TableMissing, UnknownName
from vms.store.hbase_address import HBaseAddress
from vms.store.hbase_commands import Command
from vms.store.java import Say, hbase_jars, java, plugin_jar

_LOG = logging.getLogger("vms.store")

#: Of the helper's HBase client: an answer, or an error, within about a minute.
_CLIENT_SETTINGS = {
    "hbase.client.retries.number": "8",
    "hbase.rpc.timeout": "60000",
    "hbase.client.operation.timeout": "120000",
    "zookeeper.recovery.retry": "2",
    "hbase.client.registry.impl": "org.apache.hadoop.hbase.client.ZKConnectionRegistry",
}


class HBaseAdmin:
    """Runs commands, one after the other. Safe to use from several threads."""

    def __init__(self, address: HBaseAddress, say: Say = _LOG.info) -> None:
        self._address = address
        self._settings = {**_CLIENT_SETTINGS, **address.client_settings}
        self._say = say
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None
        #: What the helper writes to standard error.
        self._messages: Any = None

    def run(self, command: Command) -> Any:
        """What the command answers. Its errors are those of vms/errors.py."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps(command.request) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                line = ""
            if not line:
                said = self._last_words()
                self._end()
                raise StoreUnavailable(f"the Java helper for HBase ended before it answered{said}")
        answer = json.loads(line)
        if "error" in answer:
            raise error_of(answer["error"], answer["message"])
        return answer["result"]

    def close(self) -> None:
        """End the helper; the next command starts another."""
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            _check_zookeeper(self._address)
            program, jars, own = java(), hbase_jars(self._say), plugin_jar(self._say)
            self._messages = tempfile.TemporaryFile("w+")  # noqa: SIM115
            self._process = subprocess.Popen(
                [program, *_FLAGS, "-cp", f"{own}:{jars}/*", "vms.hbase.Helper", *_assignments(self._settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._messages,
                text=True,
                start_new_session=True,  # an interrupt from the keyboard is for us to handle, not for it
            )
        return self._process

    def _last_words(self) -> str:
        self._messages.seek(0)
        lines = [line.strip() for line in self._messages if line.strip()]
        return f": {lines[-1]}" if lines else ""

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._messages.close()


_FLAGS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true")


def _check_zookeeper(address: HBaseAddress) -> None:
    """A Java client tries for a minute to reach a ZooKeeper that is not there; this takes a moment."""
    hosts, _, port = address.zookeeper.rpartition(":")
    for host in hosts.split(","):
        with contextlib.suppress(OSError), socket.create_connection((host.split(":")[0], int(port)), timeout=10):
            return
    raise StoreUnavailable(
        f"the ZooKeeper of HBase at {address.zookeeper} cannot be reached; give its place with "
        f"hbase:{address.host}:{address.port}?zookeeper=HOST:PORT, or HBASE_CONF_DIR"
    )


def _assignments(settings: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in settings.items()]


def error_of(kind: str, message: str) -> Exception:
    """Our error for an exception of HBase's client, by the name of its class."""
    name = kind.rpartition(".")[2]
    lines = re.sub(r"^((\w+\.)+\w+(Exception|Error): )+", "", message).splitlines()
    text = lines[0] if lines else name
    match name:
        case "TableNotFoundException" | "NamespaceNotFoundException":
            return TableMissing(f"HBase has no table {text}")
        case "TableExistsException":
            return AlreadyExists(f"HBase already has a table {text}")
        case "SnapshotExistsException":
            return AlreadyExists(text)
        case "ReplicationPeerNotFoundException":
            return UnknownName("replication peer", text)
        case "DoNotRetryIOException" | "IllegalArgumentException" | "InvalidFamilyOperationException":
            return InvalidValue(text)
        case "AccessDeniedException" | "AccessControlException":
            return StoreError(f"HBase does not permit it: {text}")
    if any(word in kind + message for word in UNAVAILABLE):
        return StoreUnavailable(f"HBase cannot be reached: {name}: {text}")
    return StoreError(f"HBase answered {name}: {text}")


#: Words of messages that say that HBase, or a part of it, is not there now.
UNAVAILABLE = (
    "RetriesExhausted",
    "CallTimeout",
    "NotServingRegion",
    "ConnectException",
    "Connection refused",
    "ConnectionLoss",
    "MasterNotRunning",
    "MasterNotRunningException",
    "PleaseHoldException",
    "ServerNotRunningYet",
    "RegionServerStopped",
    "NoServerForRegion",
    "SocketTimeout",
    "UnknownHost",
    "TimeoutIOException",
    "TimeoutException",
    "RegionOpening",
    "RegionServerAborted",
)
