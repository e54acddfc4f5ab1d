"""Order-preserving row keys: the order of the encoded keys is the order of the value tuples.

Layout: the components one after the other, each as Phoenix writes it (see `vms.model.phoenix`), so the keys
of most tables are the ones that Phoenix would write. In detail:

- BOOLEAN, INTEGER, BIGINT, DOUBLE, DATE and TIMESTAMP have a fixed width. NaN sorts last, -0.0 is 0.0.
- DECIMAL and VARCHAR vary and end with 0x00 unless they are the last component. A decimal holds no 0x00. In
  text 0x00 becomes 0x01 0x01 and 0x01 becomes 0x01 0x02, also at the end of the key; any other text, so
  nearly all, is its UTF-8 bytes. Text sorts by these.
- A component that may be NULL (the key of a view, where NULL is a group) starts with 0x00 for NULL or 0x01
  for a value, so NULLs sort first. After the 0x00 of a NULL come zeros up to the fixed width, or nothing.
- HBase allows no key without bytes: the text '' as the whole key, and the key of a view without key columns
  (its one row), is 0x00.

Decoding accepts exactly what encoding writes, so two different row keys never stand for the same values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from vms.errors import InvalidValue
from vms.model.arrow import decimal_ints, decimals_of, short, valid_of
from vms.model.phoenix import WIDTH, Bad, Matrix, decode_decimal, encode_decimal, pack, rows_of, unpack
from vms.model.types import Kind, SqlType

#: Stands for the key that would have no bytes.
EMPTY_KEY = b"\x00"
_END = b"\x00"
_NULL = b"\x00"
_VALUE = b"\x01"

Types = Sequence[SqlType]
#: For each component whether it may be NULL; None: none may.
Nullable = Sequence[bool] | None


def encode_keys(
    types: Types, arrays: Sequence[pa.Array], nullable: Nullable = None, *, rows: int | None = None
) -> list[bytes]:
    """The keys of the rows whose component i is `arrays[i]` (of Arrow type `types[i].arrow`).

    `rows` is needed only where there are no components. Raises InvalidValue for a NULL that is not allowed.
    """
    if not types:
        return [EMPTY_KEY] * (rows or 0)
    parts: list[list[bytes]] = []
    fixed: list[Matrix] = []
    for i, (type_, array, optional) in enumerate(zip(types, arrays, _flags(types, nullable), strict=True)):
        if not optional and array.null_count:
            row = int(np.flatnonzero(~array.is_valid().to_numpy(zero_copy_only=False))[0])
            raise InvalidValue(f"row {row}: key column {i + 1} ({type_}) is NULL")
        if type_.kind in WIDTH:
            fixed.extend(_fixed_component(type_, array, optional))
            continue
        if fixed:
            parts.append(rows_of(np.hstack(fixed)))
            fixed = []
        parts.append(_varying_component(type_, array, optional, b"" if i == len(types) - 1 else _END))
    if fixed:
        parts.append(rows_of(np.hstack(fixed)))
    if len(parts) > 1:
        return [b"".join(key) for key in zip(*parts)]
    return [key or EMPTY_KEY for key in parts[0]]


def decode_keys(types: Types, keys: Sequence[bytes], nullable: Nullable = None) -> list[pa.Array]:
    """The inverse of `encode_keys`; raises InvalidValue that names the first key that is none, and why."""
    arrays, bad = try_decode_keys(types, keys, nullable)
    if bad:
        position, reason = bad[0]
        raise InvalidValue(f"row key {short(keys[position])} cannot be decoded: {reason}")
    return arrays


def try_decode_keys(types: Types, keys: Sequence[bytes], nullable: Nullable = None) -> tuple[list[pa.Array], Bad]:
    """As `decode_keys`, with (position, reason) of every key that is none; all its components are NULL."""
    flags = _flags(types, nullable)
    try:
        return _decode(types, flags, keys), []
    except InvalidValue:
        bad = []
    good = np.ones(len(keys), np.bool_)
    for position, key in enumerate(keys):
        try:
            _decode(types, flags, [key])
        except InvalidValue as error:
            bad.append((position, str(error)))
            good[position] = False
    arrays = _decode(types, flags, [key for key, ok in zip(keys, good.tolist()) if ok])
    index = pa.array(np.cumsum(good) - 1, pa.int64(), mask=~good)
    return [array.take(index) for array in arrays], bad


def encode_key(types: Types, values: Sequence[Any], nullable: Nullable = None) -> bytes:
    """The key of one row of Python values."""
    arrays = []
    for type_, value in zip(types, values, strict=True):
        try:
            arrays.append(pa.array([value], type_.arrow))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise InvalidValue(f"{short(value)} is not a value of {type_}: {error}") from error
    return encode_keys(types, arrays, nullable, rows=1)[0]


def decode_key(types: Types, key: bytes, nullable: Nullable = None) -> tuple[Any, ...]:
    """The Python values of one key."""
    return tuple(array[0].as_py() for array in decode_keys(types, [key], nullable))


def _flags(types: Types, nullable: Nullable) -> Sequence[bool]:
    return [False] * len(types) if nullable is None else nullable


def _fixed_component(type_: SqlType, array: pa.Array, optional: bool) -> list[Matrix]:
    matrix = pack(type_, array)
    if not optional:
        return [matrix]
    valid = valid_of(array)
    if valid is None:
        return [np.ones((len(array), 1), np.uint8), matrix]
    present = valid.astype(np.uint8).reshape(-1, 1)
    return [present, matrix * present]


def _varying_component(type_: SqlType, array: pa.Array, optional: bool, end: bytes) -> list[bytes]:
    values: list[bytes | None]
    if type_.kind is Kind.DECIMAL:
        values = [None if v is None else encode_decimal(v, type_.scale) for v in decimal_ints(array)]
    else:
        values = array.cast(pa.binary()).to_pylist()
        if any(v and (b"\x00" in v or b"\x01" in v) for v in values):
            values = [None if v is None else _escape(v) for v in values]
    if optional:
        return [_NULL if v is None else _VALUE + v + end for v in values]
    return [v + end for v in values if v is not None]


def _escape(text: bytes) -> bytes:
    return text.replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01")


def _decode(types: Types, flags: Sequence[bool], keys: Sequence[bytes]) -> list[pa.Array]:
    """Component by component: cut its bytes off every key, then turn them into values at once."""
    if not all(keys):
        raise InvalidValue("the key is empty")
    rest = list(keys)
    if not types or (len(types) == 1 and types[0].kind is Kind.VARCHAR and not flags[0]):
        rest = [b"" if key == EMPTY_KEY else key for key in rest]
    arrays = []
    for i, (type_, optional) in enumerate(zip(types, flags)):
        where = f"column {i + 1} ({type_})"
        last = i == len(types) - 1
        if type_.kind in WIDTH:
            width = WIDTH[type_.kind] + optional
            heads = rest if last else [key[:width] for key in rest]
            rest = [] if last else [key[width:] for key in rest]
            arrays.append(_fixed_values(type_, optional, heads, width, where))
        else:
            parts, rest = _cut_varying(rest, optional, last, where)
            arrays.append(_varying_values(type_, parts, where))
    if not types and any(rest):
        raise InvalidValue(f"{len(rest[0])} bytes where the key has no columns")
    return arrays


def _fixed_values(type_: SqlType, optional: bool, parts: list[bytes], width: int, where: str) -> pa.Array:
    for length in set(map(len, parts)):
        if length != width:
            raise InvalidValue(f"{where} takes {width} bytes, {length} are there")
    matrix = np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), width)
    array, bad = unpack(type_, matrix[:, int(optional) :])
    if optional:
        present = matrix[:, 0] == 1
        bad = [(i, reason) for i, reason in bad if present[i]]
        array = array.take(pa.array(np.arange(len(parts)), mask=~present))
    if bad:
        raise InvalidValue(f"{where}: {bad[0][1]}")
    if not np.array_equal(np.hstack(_fixed_component(type_, array, optional)), matrix):
        raise InvalidValue(f"{where}: the bytes are not the ones that its value is written as")
    return array


def _cut_varying(rest: list[bytes], optional: bool, last: bool, where: str) -> tuple[list[bytes | None], list[bytes]]:
    """The bytes of the next component of each key (None: NULL) and what follows it."""
    parts: list[bytes | None] = []
    after: list[bytes] = []
    for key in rest:
        if optional:
            if key[:1] == _NULL:
                if last and len(key) > 1:
                    raise InvalidValue(f"bytes after the NULL of {where}")
                parts.append(None)
                after.append(key[1:])
                continue
            if key[:1] != _VALUE:
                raise InvalidValue(f"{where} starts neither with 0x00 (NULL) nor with 0x01")
            key = key[1:]
        part, end, tail = (key, b"", b"") if last else key.partition(_END)
        if not end and not last:
            raise InvalidValue(f"the key ends within {where}")
        parts.append(part)
        after.append(tail)
    return parts, after


def _varying_values(type_: SqlType, parts: list[bytes | None], where: str) -> pa.Array:
    try:
        if type_.kind is Kind.DECIMAL:
            return decimals_of(type_, [None if p is None else decode_decimal(type_, p) for p in parts])
        return pa.array([None if p is None else _unescape(p).decode() for p in parts], pa.string())
    except (InvalidValue, UnicodeDecodeError) as error:
        raise InvalidValue(f"{where}: {error}") from error


def _unescape(part: bytes) -> bytes:
    if b"\x01" not in part and b"\x00" not in part:
        return part
    text = part.replace(b"\x01\x01", b"\x00").replace(b"\x01\x02", b"\x01")
    if _escape(text) != part:
        raise InvalidValue("a byte 0x00 or 0x01 that no text is written with")
    return text
