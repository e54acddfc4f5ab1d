"""Messages as bytes: msgpack, with Arrow IPC for rows. For the links between members and for the log.

`message_from_bytes` takes bytes of any origin: what is not exactly a message raises `BadMessage`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from vms.errors import CorruptState
from vms.maintenance.cut import batch_from_bytes, batch_to_bytes, pack_state, pack_watermarks
from vms.maintenance.messages import Batch, Done, Durable, Forward, Handoff, Message, Pull, StateLost, Want
from vms.model.ring import SLOTS


class BadMessage(CorruptState):
    """Bytes that are no message."""


def message_to_bytes(message: Message) -> bytes:
    return msgpack.packb([type(message).__name__, *_KINDS[type(message).__name__][0](message)])


def message_from_bytes(data: bytes) -> Message:
    """Inverse of `message_to_bytes`; raises BadMessage."""
    try:
        kind, *values = msgpack.unpackb(data, use_list=True, strict_map_key=False)
        if not isinstance(kind, str) or kind not in _KINDS:
            raise BadMessage(f"there is no message {kind!r}")
        return _KINDS[kind][1](*values)
    except BadMessage:
        raise
    except (ValueError, TypeError, KeyError, IndexError, OSError, OverflowError, pa.ArrowException) as error:
        raise BadMessage(f"these bytes are no message: {error}") from None
    except (msgpack.UnpackException, RecursionError, MemoryError) as error:
        raise BadMessage(f"these bytes are no message: {type(error).__name__}") from None


# --- parts -----------------------------------------------------------------------------------------------------


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise BadMessage(f"{value!r} is no number")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise BadMessage(f"{value!r} is no name")
    return value


def _rows(value: Any) -> pa.RecordBatch:
    """Rows of any origin: every offset and length in them is checked before anybody follows it."""
    if type(value) is not bytes:
        raise BadMessage("rows are missing")
    rows = batch_from_bytes(value)
    rows.validate(full=True)
    return rows


def _state(value: Any) -> dict[str, list[pa.RecordBatch]]:
    if not isinstance(value, Mapping) or not all(isinstance(v, Sequence) for v in value.values()):
        raise BadMessage("the state is no table of rows")
    return {_text(name): [_rows(batch) for batch in batches] for name, batches in value.items()}


def _marks(value: Any) -> dict[str, np.ndarray]:
    if not isinstance(value, Mapping):
        raise BadMessage("the watermarks are no table")
    marks = {_text(region): np.frombuffer(data, "<i8").astype(np.int64) for region, data in value.items()}
    if any(len(m) != SLOTS for m in marks.values()):
        raise BadMessage(f"watermarks are {SLOTS} to a region")
    return marks


def _unpack_handoff(generation: Any, epoch: Any, state: Any, marks: Any) -> Handoff:
    return Handoff(_number(generation), _number(epoch), _state(state), _marks(marks))


_Pack = Callable[[Any], Sequence[Any]]
_Unpack = Callable[..., Message]
#: For each kind: its values, and the message of them.
_KINDS: dict[str, tuple[_Pack, _Unpack]] = {
    "Forward": (
        lambda m: [m.delivery, m.generation, m.ring, m.table, m.region, batch_to_bytes(m.rows)],
        lambda d, g, r, t, region, rows: Forward(
            _number(d), _number(g), _number(r), _text(t), _text(region), _rows(rows)
        ),
    ),
    "Durable": (
        lambda m: [m.delivery, m.generation, m.ring, m.epoch],
        lambda d, g, r, e: Durable(_number(d), _number(g), _number(r), _number(e)),
    ),
    "Batch": (
        lambda m: [m.generation, m.epoch, m.edge, None if m.rows is None else batch_to_bytes(m.rows)],
        lambda g, e, edge, rows: Batch(_number(g), _number(e), _text(edge), None if rows is None else _rows(rows)),
    ),
    "Handoff": (
        lambda m: [
            m.generation,
            m.epoch,
            pack_state(m.state),
            pack_watermarks(m.watermarks),
        ],
        _unpack_handoff,
    ),
    "Pull": (
        lambda m: [m.generation, m.epoch, m.edge],
        lambda g, e, edge: Pull(_number(g), _number(e), _text(edge)),
    ),
    "Done": (
        lambda m: [m.generation, m.epoch, m.member],
        lambda g, e, member: Done(_number(g), _number(e), _text(member)),
    ),
    "Want": (lambda m: [m.member], lambda member: Want(_text(member))),
    "StateLost": (
        lambda m: [m.generation, m.epoch, m.member],
        lambda g, e, member: StateLost(_number(g), _number(e), _text(member)),
    ),
}
