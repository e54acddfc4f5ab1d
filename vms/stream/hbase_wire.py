"""HBase's RPC as far as a replication peer needs it: requests in, answers out (docs/hbase-stream.md has the layout).

A connection begins with `HBas`, a version and an authentication byte, then a length and a ConnectionHeader, which
nobody answers. Every request and answer is a length and that many bytes. Written by hand, because it is four
messages of which few fields matter, and because bytes of the network may be anything: whatever is not a request
raises `Malformed`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from vms.errors import StoreError

MAGIC, VERSION, SIMPLE_AUTH = b"HBas", 0, 0x50
PREAMBLE_LENGTH = 6
#: The one call that a peer has to serve.
REPLICATE = "ReplicateWALEntry"
#: Codecs that write a cell in the same way, one without tags.
CODECS = ("org.apache.hadoop.hbase.codec.KeyValueCodecWithTags", "org.apache.hadoop.hbase.codec.KeyValueCodec")
#: What HBase understands as: not now, send it again.
BUSY = "org.apache.hadoop.hbase.RegionTooBusyException"
UNKNOWN_CALL = "org.apache.hadoop.hbase.DoNotRetryIOException"

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


class Malformed(StoreError):
    """Bytes that are not what HBase's RPC puts there."""


class Header(NamedTuple):
    """What a connection says about itself: how the cells of its requests are written."""

    service: str
    codec: str
    compressor: str


class Request(NamedTuple):
    """One call. `parameter` is its message, `block` its cells, `timeout_ms` how long the caller waits (0: unknown)."""

    call: int
    method: str
    parameter: memoryview
    block: memoryview
    timeout_ms: int = 0


def check_preamble(data: bytes) -> None:
    """Raise Malformed unless a client that authenticates with nothing but its name begins like this."""
    if data[:4] != MAGIC or data[4] != VERSION:
        raise Malformed(f"a connection begins with {data.hex()}; that is not HBase's RPC")
    if data[5] != SIMPLE_AUTH:
        raise Malformed(
            f"the region server wants authentication method {data[5]:#x} (Kerberos is 0x51); only simple is served"
        )


def read_header(data: bytes) -> Header:
    """A ConnectionHeader."""
    found = _fields(memoryview(data))
    service, codec, compressor = (_text(found.get(field, b"")) for field in (2, 3, 4))
    return Header(service, codec, compressor)


def read_request(data: bytes | bytearray) -> Request:
    """A request without its length: header, parameter and cell block, one after the other."""
    view = memoryview(data)
    n, at = _delimited(view, 0)
    header = _fields(view[at : at + n])
    at += n
    call, method, meta = header.get(1), _text(header.get(3, b"")), header.get(5, b"")
    timeout = header.get(7, 0)
    if not isinstance(call, int) or not isinstance(timeout, int) or not method or isinstance(meta, int):
        raise Malformed("a request without number or method")
    parameter = memoryview(b"")
    if header.get(4, 0):
        n, at = _delimited(view, at)
        parameter = view[at : at + n]
        at += n
    block = view[at:]
    declared = _fields(memoryview(meta)).get(1, 0)
    if declared != len(block):
        raise Malformed(f"a request declares {declared!r} bytes of cells and has {len(block)}")
    return Request(call, method, parameter, block, timeout)


def success(call: int) -> bytes:
    """The answer to a call that returns an empty message."""
    header = _number(1, call)
    return _frame(_varint(len(header)) + header + b"\0")


def failure(call: int, kind: str, text: str, *, final: bool = False) -> bytes:
    """The answer that raises `kind` at the caller; `final`: asking again is of no use."""
    error = _field(1, kind.encode()) + _field(2, f"{kind}: {text}".encode()) + _number(5, int(final))
    header = _number(1, call) + _field(2, error)
    return _frame(_varint(len(header)) + header)


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _field(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _DELIMITED) + _varint(len(value)) + value


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for i in range(10):
        if at >= len(data):
            raise Malformed("a message ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, at
    raise Malformed("a number of more than ten bytes")


def _delimited(data: memoryview, at: int) -> tuple[int, int]:
    """(length, start) of the bytes at `at`."""
    n, at = _read_varint(data, at)
    if n > len(data) - at:
        raise Malformed(f"{n} bytes announced, {len(data) - at} there")
    return n, at


def _fields(data: memoryview) -> dict[int, int | memoryview]:
    """The fields of a message, the last of each number."""
    found: dict[int, int | memoryview] = {}
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            found[tag >> 3], at = _read_varint(data, at)
            continue
        if wire == _DELIMITED:
            n, at = _delimited(data, at)
        elif wire in (_FIXED64, _FIXED32):
            n = 8 if wire == _FIXED64 else 4
        else:
            raise Malformed(f"wire type {wire}")
        if n > len(data) - at:
            raise Malformed("a message ends within a field")
        found[tag >> 3] = data[at : at + n]
        at += n
    return found


def _text(value: int | memoryview | bytes) -> str:
    if isinstance(value, int):
        raise Malformed("a number where text belongs")
    try:
        return bytes(value).decode()
    except UnicodeDecodeError as error:
        raise Malformed("text that is not UTF-8") from error
