"""The control service of a View Manager (proto/vms/v1/control.proto): what clients and operators ask of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import grpc
import msgpack

from vms.errors import StoreUnavailable, UserError, VmsError
from vms.model.token import Token
from vms.ring.links import Server
from vms.ring.wire.control_pb2 import Answer, Question

SERVICE = "vms.v1.Control"
#: Answers one question: plain values in, plain values out.
Handler = Callable[[Mapping[str, Any]], Any]


class ControlServer:
    """Serves handlers by method name on the port of the links; before the server starts."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._handlers: dict[str, Handler] = {}
        methods = ("Wait", "Status", "Trace", "Drain", "Rebuild", "Marks")
        server.add(SERVICE, {name: self._method(name) for name in methods})

    def answer(self, handlers: Mapping[str, Handler]) -> None:
        """From now on these answer."""
        self._handlers.update(handlers)

    def _method(self, name: str) -> grpc.RpcMethodHandler:
        def handle(question: Question, context: grpc.ServicerContext) -> Answer:
            self._server.admit(context)
            try:
                value = msgpack.unpackb(question.value, strict_map_key=False)
                if not isinstance(value, Mapping):
                    raise ValueError("a question is a map")
            except (ValueError, msgpack.UnpackException):
                self._server.refuse("question")
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the question cannot be read")
            handler = self._handlers.get(name, _starting)
            try:
                return Answer(value=msgpack.packb(handler(value)))
            except UserError as error:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            except VmsError as error:
                context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            except (TypeError, ValueError, KeyError, AttributeError):
                self._server.refuse("question")
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the question makes no sense")
            raise AssertionError("abort raises")

        return grpc.unary_unary_rpc_method_handler(
            handle, request_deserializer=Question.FromString, response_serializer=Answer.SerializeToString
        )


def _starting(_: Mapping[str, Any]) -> Any:
    raise StoreUnavailable("the manager is starting")


def pack_token(token: Token) -> dict[str, Any]:
    rows = {table: sorted(keys) for table, keys in token.rows.items()}
    return {"positions": dict(token.positions), "rows": rows, "everything": token.everything}


def unpack_token(value: Mapping[str, Any]) -> Token:
    rows = {str(table): frozenset(bytes(key) for key in keys) for table, keys in value["rows"].items()}
    positions = {str(region): int(seq) for region, seq in value["positions"].items()}
    return Token(positions, rows, bool(value["everything"]))
