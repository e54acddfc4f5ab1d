"""Links over loopback gRPC: what arrives, what is refused."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import grpc
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vms.maintenance.codec import BadMessage, message_from_bytes, message_to_bytes
from vms.maintenance.messages import Batch, Done, Durable, Forward, Handoff, Pull, StateLost, Want
from vms.ring.credentials import Credentials, make_trial_certificates
from vms.ring.inbox import Arrived, Inbox
from vms.ring.links import FRAME_BYTES, SECRET, Links, Server
from vms.ring.wire.links_pb2 import Frame, Receipt

ROWS = pa.record_batch({"k": pa.array([1, 2, None], pa.int64()), "t": ["a", "", "ü"]})
MESSAGES = [
    Forward(7, 1, 2, "t", "region", ROWS),
    Durable(7, 1, 2, 9),
    Batch(1, 9, "edge", ROWS),
    Batch(1, 9, "edge", None),
    Handoff(1, 9, {"table:t": [ROWS, ROWS.slice(0, 0)]}, {}),
    Pull(1, 9, "edge"),
    Done(1, 9, "m1"),
    Want("m1"),
    StateLost(1, 9, "m1"),
]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server("127.0.0.1:0", "secret")
    made.start()
    yield made
    made.close()


def taken(server: Server, count: int) -> list[Arrived]:
    """The next messages, waited for."""
    news, found = threading.Event(), []
    server.wake = news.set
    while len(found) < count:
        item = server.inbox.take()
        if item is None:
            news.wait(0.2)
            news.clear()
        else:
            found.append(item)
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not condition():
        pause.wait(0.02)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_comes_back_from_its_bytes(message: object) -> None:
    found = message_from_bytes(message_to_bytes(message))  # type: ignore[arg-type]
    assert repr(found) == repr(message)


@given(st.sampled_from(MESSAGES), st.integers(0, 2**32))
def test_damaged_bytes_are_a_message_or_refused_and_nothing_else(message: object, seed: int) -> None:
    random, data = Random(seed), bytearray(message_to_bytes(message))  # type: ignore[arg-type]
    for _ in range(random.randint(1, 8)):
        data[random.randrange(len(data))] = random.randrange(256)
    data = data[: random.randint(0, len(data))] if random.random() < 0.3 else data
    try:
        message_from_bytes(bytes(data))
    except BadMessage:
        return


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_way(data: bytes) -> None:
    with pytest.raises(BadMessage):
        message_from_bytes(data)


def test_messages_arrive_in_order_however_large(server: Server) -> None:
    links = Links("secret")
    payloads = [b"small", Random(1).randbytes(3 * FRAME_BYTES + 17), b"", b"last"]
    for payload in payloads:
        links.send(server.address, "m1", "m2", payload)
    assert taken(server, 4) == [Arrived("m1", "m2", payload) for payload in payloads]
    assert server.refused == {}
    links.close()


def test_a_link_comes_back_after_its_receiver_was_away() -> None:
    first = Server("127.0.0.1:0", "secret")
    first.start()
    links = Links("secret")
    links.send(first.address, "m1", "m2", b"one")
    assert taken(first, 1)[0].payload == b"one"
    first.close()
    again = Server(first.address, "secret")
    again.start()
    arrived = threading.Event()
    again.wake = arrived.set
    while not arrived.is_set():
        links.send(again.address, "m1", "m2", b"two")
        arrived.wait(0.2)
    item = again.inbox.take()
    assert item is not None and item.payload == b"two"
    links.close()
    again.close()


def test_who_does_not_know_the_secret_is_refused_and_counted(server: Server) -> None:
    with grpc.insecure_channel(server.address) as channel:
        for metadata in ([], [(SECRET, "wrong")]):
            call = channel.stream_stream(
                "/vms.v1.Links/Exchange",
                request_serializer=Frame.SerializeToString,
                response_deserializer=Receipt.FromString,
            )(iter([Frame(number=1, payload=b"x")]), metadata=metadata, timeout=20)
            with pytest.raises(grpc.RpcError) as refused:
                list(call)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED  # type: ignore[attr-defined]
    assert server.refused == {"secret": 2}
    assert server.inbox.take() is None


def test_frames_that_make_no_message_and_bytes_that_are_no_grpc_do_no_harm(server: Server) -> None:
    mixed = [Frame(number=1, sender="a", payload=b"x", more=True), Frame(number=2, sender="b", payload=b"y")]
    with grpc.insecure_channel(server.address) as channel:
        call = channel.stream_stream(
            "/vms.v1.Links/Exchange",
            request_serializer=Frame.SerializeToString,
            response_deserializer=Receipt.FromString,
        )(iter(mixed), metadata=[(SECRET, "secret")], timeout=20)
        with pytest.raises(grpc.RpcError):
            list(call)
        raw = channel.unary_unary("/vms.v1.Links/Nothing")
        with pytest.raises(grpc.RpcError):
            raw(b"\xff" * 100, timeout=20)
    host, _, port = server.address.rpartition(":")
    for seed in range(20):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(Random(seed).randbytes(500))
    assert server.refused == {"frames": 1}
    links = Links("secret")
    links.send(server.address, "m1", "m2", b"still here")
    assert taken(server, 1)[0].payload == b"still here"
    links.close()


def test_with_certificates_only_holders_of_one_are_let_in(tmp_path: Path) -> None:
    make_trial_certificates(tmp_path / "one", ["127.0.0.1"])
    make_trial_certificates(tmp_path / "other", ["127.0.0.1"])
    ours, theirs = Credentials.read(tmp_path / "one"), Credentials.read(tmp_path / "other")
    server = Server("127.0.0.1:0", "secret", ours)
    server.start()
    friend, stranger, plain = Links("secret", ours), Links("secret", theirs), Links("secret")
    for links, payload in ((stranger, b"stranger"), (plain, b"plain"), (friend, b"friend")):
        links.send(server.address, "m1", "m2", payload)
    assert taken(server, 1)[0].payload == b"friend"
    assert server.inbox.take() is None
    for links in (friend, stranger, plain):
        links.close()
    server.close()


def test_the_inbox_goes_on_to_the_disk_and_keeps_the_order() -> None:
    inbox, random, put, got = Inbox(memory_bytes=1000), Random(3), [], []
    for number in range(300):
        put.append(Arrived(f"m{number}", "leader", random.randbytes(random.randint(0, 200))))
        inbox.put(put[-1])
        if random.random() < 0.3:
            got.append(inbox.take())
    assert inbox.spilled > 0
    assert len(inbox) == sum(len(i.payload) for i in put[len(got) :]) or len(inbox) > 0
    while (item := inbox.take()) is not None:
        got.append(item)
    assert got == put
    assert len(inbox) == 0
    inbox.close()
