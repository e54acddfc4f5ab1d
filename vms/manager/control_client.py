"""Asks View Managers: the other end of `vms.manager.control`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
import msgpack

from vms.errors import StoreUnavailable, UserError
from vms.manager.control import SERVICE
from vms.ring.credentials import Credentials
from vms.ring.links import SECRET, channel
from vms.ring.wire.control_pb2 import Answer, Question

#: Seconds that a manager has to answer what it can answer at once.
_SECONDS = 10.0


class ControlClient:
    """Channels are kept from question to question."""

    def __init__(self, secret: str, credentials: Credentials | None = None) -> None:
        self._secret, self._credentials = secret, credentials
        self._channels: dict[str, grpc.Channel] = {}

    def ask(self, address: str, method: str, question: Mapping[str, Any], *, seconds: float = _SECONDS) -> Any:
        """Its answer. Raises StoreUnavailable where none comes in time, UserError where it refuses with advice."""
        if address not in self._channels:
            self._channels[address] = channel(address, self._credentials)
        call = self._channels[address].unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=Question.SerializeToString,
            response_deserializer=Answer.FromString,
        )
        try:
            question_bytes = Question(value=msgpack.packb(dict(question)))
            answer = call(question_bytes, timeout=seconds, metadata=[(SECRET, self._secret)])
        except grpc.RpcError as error:
            code, details = error.code(), error.details()  # type: ignore[attr-defined]
            if code is grpc.StatusCode.FAILED_PRECONDITION:
                raise UserError(details) from None
            raise StoreUnavailable(f"the View Manager at {address} does not answer: {details}") from None
        return msgpack.unpackb(answer.value, strict_map_key=False)

    def close(self) -> None:
        for one in self._channels.values():
            one.close()
        self._channels.clear()
