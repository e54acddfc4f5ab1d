"""The control service: who may ask, and questions that make no sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import grpc
import pytest

from vms.errors import StoreUnavailable, UserError
from vms.manager.control import SERVICE, ControlServer, pack_token, unpack_token
from vms.manager.control_client import ControlClient
from vms.model.token import Token
from vms.ring.links import SECRET, Server
from vms.ring.wire.control_pb2 import Answer, Question


def drain(_: Mapping[str, Any]) -> bool:
    raise UserError("start another manager first")


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server("127.0.0.1:0", "secret")
    control = ControlServer(made)
    control.answer(
        {"Status": lambda q: {"asked": dict(q)}, "Drain": drain, "Wait": lambda q: bool(unpack_token(q["token"]))}
    )
    made.start()
    yield made
    made.close()


def test_a_question_is_answered_and_a_refusal_keeps_its_words(server: Server) -> None:
    client = ControlClient("secret")
    assert client.ask(server.address, "Status", {"n": 1}) == {"asked": {"n": 1}}
    with pytest.raises(UserError, match="start another manager first"):
        client.ask(server.address, "Drain", {})
    with pytest.raises(StoreUnavailable, match="is starting"):
        client.ask(server.address, "Trace", {})
    client.close()


def test_strangers_and_senseless_questions_are_refused_and_counted(server: Server) -> None:
    stranger = ControlClient("guess")
    with pytest.raises(StoreUnavailable, match="not a manager or client"):
        stranger.ask(server.address, "Status", {})
    stranger.close()
    with grpc.insecure_channel(server.address) as channel:
        ask = channel.unary_unary(
            f"/{SERVICE}/Wait",
            request_serializer=Question.SerializeToString,
            response_deserializer=Answer.FromString,
        )
        for seed in range(20):
            with pytest.raises(grpc.RpcError) as refused:
                value = Random(seed).randbytes(50)
                ask(Question(value=value), timeout=20, metadata=[(SECRET, "secret")])
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
    assert server.refused == {"secret": 1, "question": 20}


def test_a_token_comes_back_from_its_values() -> None:
    token = Token({"r": 7}, {"t": frozenset({b"a", b"\xff"})}, True)
    assert unpack_token(pack_token(token)) == token
