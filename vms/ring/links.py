"""Links between View Managers: messages of members over gRPC (design section 7, proto/vms/v1/links.proto).

From each manager to each other one there is a stream: frames one way, receipts the other. A link may lose what is
under way when it breaks, or when a receiver takes nothing in for long; the members ask again for what they miss,
so a link keeps nothing and repeats nothing. What it must do is to tell friend from foe: every call carries the
secret of the cluster (it stands in ZooKeeper), everything else is refused and counted.
"""

from __future__ import annotations

import hmac
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from vms.errors import StoreError
from vms.ring.credentials import Credentials
from vms.ring.inbox import Arrived, Inbox
from vms.ring.wire.links_pb2 import Frame, Receipt

#: Bytes of one frame. Not higher, or one large message would delay the small ones behind it; not lower, or frames
#: would cost more than their content.
FRAME_BYTES = 1 << 20
#: The largest message that is taken in. A larger one would be a state that no member can hold.
MESSAGE_BYTES = 8 << 30
#: Bytes sent and not yet taken in by the receiver, beyond which messages to it are dropped.
WINDOW_BYTES = 512 << 20
#: Seconds without a receipt after which a stream is given up, and between two attempts to connect.
SILENCE_SECONDS = 20.0
RETRY_SECONDS = 0.5
SECRET = "vms-secret"
_OPTIONS = [
    ("grpc.max_receive_message_length", 4 * FRAME_BYTES),
    ("grpc.max_send_message_length", 4 * FRAME_BYTES),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.so_reuseport", 0),
]
_METHOD = "/vms.v1.Links/Exchange"
_LOG = logging.getLogger("vms.ring.links")


class Server:
    """The port of a View Manager: links, and the services that are given to it."""

    def __init__(self, address: str, secret: str, credentials: Credentials | None = None) -> None:
        self._secret = secret.encode()
        self.inbox = Inbox()
        self.wake: Callable[[], None] = lambda: None
        #: Calls and messages that were refused, by reason.
        self.refused: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(1024, thread_name_prefix="vms-link")
        self._server = grpc.server(self._pool, options=_OPTIONS)
        exchange = grpc.stream_stream_rpc_method_handler(
            self._exchange, request_deserializer=Frame.FromString, response_serializer=Receipt.SerializeToString
        )
        self.add("vms.v1.Links", {"Exchange": exchange})
        host = address.rpartition(":")[0]
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials.server())
        except RuntimeError:
            raise StoreError(f"cannot listen on {address}: choose another --listen HOST:PORT") from None
        #: HOST:PORT where others find it.
        self.address = f"{host}:{port}"

    def add(self, service: str, handlers: dict[str, Any]) -> None:
        """Serve this too; before `start`."""
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.stop(0.5).wait()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.inbox.close()

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def admit(self, context: grpc.ServicerContext) -> None:
        """End the call unless it carries the secret of the cluster."""
        given = dict(context.invocation_metadata()).get(SECRET, "")
        if not hmac.compare_digest(str(given).encode(), self._secret):
            self.refuse("secret")
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "this is not a manager or client of this cluster")

    def _exchange(self, frames: Iterator[Frame], context: grpc.ServicerContext) -> Iterator[Receipt]:
        """Take in everything that comes, in the thread of the stream."""
        self.admit(context)
        pieces: list[bytes] = []
        size, name = 0, ("", "")
        for frame in frames:
            size += len(frame.payload)
            if size > MESSAGE_BYTES or (pieces and (frame.sender, frame.receiver) != name):
                self.refuse("frames")
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the frames do not make a message")
            name = frame.sender, frame.receiver
            pieces.append(frame.payload)
            if not frame.more:
                self.inbox.put(Arrived(*name, pieces[0] if len(pieces) == 1 else b"".join(pieces)))
                pieces, size = [], 0
                self.wake()
            yield Receipt(number=frame.number)


class Peer:
    """The stream to one other manager."""

    def __init__(self, address: str, secret: str, credentials: Credentials | None) -> None:
        self.address, self._secret, self._credentials = address, secret, credentials
        #: Of the stream under way; each has its own, so that one that ended takes nothing from the next.
        self._queue: queue.SimpleQueue[Arrived | None] = queue.SimpleQueue()
        self._waiting, self._lock = 0, threading.Lock()
        self._closed = threading.Event()
        self._sizes: dict[int, int] = {}
        self._last_receipt = 0.0
        #: Messages sent, their bytes, and messages that were dropped.
        self.sent = self.bytes = self.dropped = 0
        self._thread = threading.Thread(target=self._run, name=f"vms-to-{address}", daemon=True)
        self._thread.start()

    def send(self, sender: str, receiver: str, payload: bytes) -> None:
        """Deliver if possible. Does not block."""
        with self._lock:
            if self._waiting and self._waiting + len(payload) > WINDOW_BYTES:
                self.dropped += 1
                return
            self._waiting += len(payload)
            self._queue.put(Arrived(sender, receiver, payload))

    def close(self) -> None:
        self._closed.set()
        self._queue.put(None)

    def _run(self) -> None:
        while not self._closed.is_set():
            opened = channel(self.address, self._credentials)
            try:
                self._stream(opened)
            except grpc.RpcError as error:
                _LOG.info(
                    "the link to %s broke: %s", self.address, error.code() if isinstance(error, grpc.Call) else error
                )
            except grpc.FutureTimeoutError:
                _LOG.info("no link to %s yet", self.address)
            finally:
                opened.close()
            self._forget()
            self._closed.wait(RETRY_SECONDS)

    def _stream(self, opened: grpc.Channel) -> None:
        grpc.channel_ready_future(opened).result(timeout=SILENCE_SECONDS)
        ended, items = threading.Event(), self._queue
        call = opened.stream_stream(
            _METHOD, request_serializer=Frame.SerializeToString, response_deserializer=Receipt.FromString
        )(self._frames(items, ended), metadata=[(SECRET, self._secret)])
        watch = threading.Thread(target=self._watch, args=(call, ended), daemon=True)
        self._last_receipt = time.monotonic()
        watch.start()
        try:
            for receipt in call:
                self._received(receipt.number)
        finally:
            ended.set()
            items.put(None)

    def _frames(self, items: queue.SimpleQueue[Arrived | None], ended: threading.Event) -> Iterator[Frame]:
        number = 0
        while not ended.is_set() and not self._closed.is_set():
            item = items.get()
            if item is None:
                return
            view = memoryview(item.payload)
            self.sent += 1
            self.bytes += len(view)
            for start in range(0, max(len(view), 1), FRAME_BYTES):
                piece = view[start : start + FRAME_BYTES]
                number += 1
                with self._lock:
                    if not self._sizes:
                        self._last_receipt = time.monotonic()
                    self._sizes[number] = len(piece)
                yield Frame(
                    number=number,
                    sender=item.sender,
                    receiver=item.receiver,
                    payload=bytes(piece),
                    more=start + FRAME_BYTES < len(view),
                )

    def _received(self, number: int) -> None:
        with self._lock:
            self._waiting -= self._sizes.pop(number, 0)
            self._last_receipt = time.monotonic()

    def _watch(self, call: grpc.Call, ended: threading.Event) -> None:
        """Give the stream up where nothing is taken in any more."""
        while not ended.wait(1):
            with self._lock:
                silent = bool(self._sizes) and time.monotonic() - self._last_receipt > SILENCE_SECONDS
            if silent or self._closed.is_set():
                call.cancel()

    def _forget(self) -> None:
        """The stream is gone, and what was under way with it; what waits is old by now."""
        with self._lock:
            self._queue = queue.SimpleQueue()
            self._waiting, self._sizes = 0, {}


class Links:
    """From this manager to all others. Peers are made when they are first needed."""

    def __init__(self, secret: str, credentials: Credentials | None = None) -> None:
        self._secret, self._credentials = secret, credentials
        self.peers: dict[str, Peer] = {}

    def send(self, address: str, sender: str, receiver: str, payload: bytes) -> None:
        if address not in self.peers:
            self.peers[address] = Peer(address, self._secret, self._credentials)
        self.peers[address].send(sender, receiver, payload)

    def keep(self, addresses: set[str]) -> None:
        """The managers that live: links to others are closed."""
        for address in self.peers.keys() - addresses:
            self.peers.pop(address).close()

    def close(self) -> None:
        self.keep(set())


def channel(address: str, credentials: Credentials | None) -> grpc.Channel:
    if credentials is None:
        return grpc.insecure_channel(address, options=_OPTIONS)
    return grpc.secure_channel(address, credentials.channel(), options=_OPTIONS)
