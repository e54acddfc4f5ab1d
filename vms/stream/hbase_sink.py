"""The socket at which HBase's region servers deliver their WAL: connections in, calls out.

One thread for each connection reads its requests; answers are given by whoever knows them, in any order, as HBase
sends the calls of all regions over one connection.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import threading
from collections.abc import Callable

from vms.errors import StoreUnavailable
from vms.stream.hbase_wire import (
    CODECS,
    PREAMBLE_LENGTH,
    REPLICATE,
    UNKNOWN_CALL,
    Header,
    Malformed,
    Request,
    check_preamble,
    failure,
    read_header,
    read_request,
    success,
)

_LOG = logging.getLogger("vms.stream")

#: The largest request. HBase itself refuses more than 256 MB; not lower, or one large row would stop its stream.
MAX_REQUEST = 256 << 20
#: The largest ConnectionHeader.
_MAX_HEADER = 1 << 16
#: How long an answer may wait for a region server to take it. Not higher, or one that hangs would hold up the
#: manager; not lower, or a busy one would lose its connection.
_SEND_SECONDS = 2


class Call:
    """A request that waits for its answer. Only the first answer is sent."""

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection, self.request = connection, request
        self._answered = False
        self._lock = threading.Lock()

    @property
    def answered(self) -> bool:
        return self._answered

    def succeed(self) -> bool:
        """The entries are taken care of; False if the call was answered before."""
        return self._answer(success(self.request.call))

    def fail(self, kind: str, reason: str, *, final: bool = False) -> bool:
        """HBase sends the entries again, to whichever sink; False if the call was answered before."""
        return self._answer(failure(self.request.call, kind, reason, final=final))

    def _answer(self, data: bytes) -> bool:
        with self._lock:
            if self._answered:
                return False
            self._answered = True
        self._connection.send(data)
        return True


class Connection:
    """One region server's connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))

    def header(self) -> Header:
        check_preamble(bytes(self._receive(PREAMBLE_LENGTH)))
        return read_header(bytes(self._frame(_MAX_HEADER)))

    def request(self) -> Request:
        return read_request(self._frame(MAX_REQUEST))

    def _frame(self, limit: int) -> bytearray:
        (length,) = struct.unpack(">i", self._receive(4))
        if not 0 <= length <= limit:
            raise Malformed(f"a message of {length} bytes; at most {limit} are taken")
        return self._receive(length)

    def _receive(self, count: int) -> bytearray:
        data = bytearray(count)
        view, at = memoryview(data), 0
        while at < count:
            got = self._socket.recv_into(view[at:])
            if not got:
                raise EOFError
            at += got
        return data

    def send(self, data: bytes) -> None:
        """Send, or give the connection up: whoever waits for the answer sends its entries again."""
        with self._lock:
            try:
                self._socket.sendall(data)
            except OSError:
                self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Sink:
    """Listens for region servers. `deliver` is called in the thread of the connection, with one call at a time.

    What cannot be served costs the connection, and is counted; nothing that arrives stops the others.
    """

    def __init__(self, deliver: Callable[[Call, Header], None], host: str = "127.0.0.1", port: int = 0) -> None:
        self._deliver = deliver
        try:
            self._listener = socket.create_server((host, port), backlog=128)
        except OSError as error:
            raise StoreUnavailable(f"cannot listen on {host}:{port} for HBase: {error.strerror}") from error
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._closed = False
        #: Connections that were closed because of what came over them.
        self.malformed = 0
        self._thread = threading.Thread(target=self._accept, name="vms-sink", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            connection = Connection(sock)
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="vms-sink", daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            header = connection.header()
            while True:
                call = Call(connection, connection.request())
                if call.request.method == REPLICATE:
                    self._deliver(call, header)
                else:
                    call.fail(UNKNOWN_CALL, f"{call.request.method} is not served by a replication peer", final=True)
        except (EOFError, OSError):
            pass
        except Malformed as error:
            self.malformed += 1
            _LOG.warning("a connection was closed: %s", error)
        except Exception:
            _LOG.exception("a connection was closed")
            self.malformed += 1
        finally:
            connection.close()
            with self._lock:
                self._connections.discard(connection)

    def close(self) -> None:
        """Close every connection; HBase sends what was not answered to another sink."""
        with self._lock:
            self._closed = True
            connections = list(self._connections)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in connections:
            connection.close()
        self._thread.join(5)


def readable_cells(header: Header) -> str | None:
    """None if the cells of such a connection can be read, else why not."""
    if header.compressor:
        return f"cells are compressed by {header.compressor}; unset hbase.client.rpc.compressor"
    if header.codec not in CODECS:
        return f"cells are written by {header.codec or 'no codec'}; set hbase.replication.rpc.codec to {CODECS[0]}"
    return None
