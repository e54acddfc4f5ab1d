"""Cell values: how a value of each SQL type is written into a cell, for each `Encoding`.

| type | text | bytes, as HBase's `Bytes` class writes |
|---|---|---|
| BOOLEAN | true, false | 1 byte, 0xFF or 0 (read: not 0 is true) |
| INTEGER | decimal digits | 4 bytes big-endian |
| BIGINT | decimal digits | 8 bytes big-endian |
| DECIMAL | decimal number | 4 bytes of scale, then the unscaled number in two's complement |
| DOUBLE | shortest text that reads back | 8 bytes: the bit pattern |
| DATE | 2024-12-31 | 4 bytes: days since 1970-01-01 |
| TIMESTAMP | 2024-12-31 23:59:59.000000 | 8 bytes: microseconds since 1970-01-01 |
| VARCHAR | UTF-8 | UTF-8 |

`phoenix` is described in `vms.model.phoenix`. HBase's `Bytes` has no dates; the two forms above are ours.

NULL has no cell. With `phoenix` an empty cell of another type than VARCHAR is NULL, as Phoenix reads it; an
empty VARCHAR is the text '' here, which Phoenix takes for NULL.

Reading never raises: a value that is not one of its type is reported with its position and a reason, and is
NULL in the result, so that one bad cell stops nothing (design section 3). A DECIMAL of another scale is read
where no digit is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vms.errors import InvalidValue
from vms.model.arrow import (
    convert,
    decimal_array,
    decimal_ints,
    decimal_words,
    decimals_of,
    double_bits,
    fixed_array,
    fixed_values,
    short,
    valid_of,
)
from vms.model.changes import Bool, Int64
from vms.model.phoenix import (
    WIDTH,
    Bad,
    Matrix,
    as_bytes,
    decode_decimal,
    encode_decimal,
    from_bytes,
    pack,
    rescale,
    rows_of,
    unpack,
)
from vms.model.table import Encoding
from vms.model.types import DOUBLE, Kind, SqlType

_BYTES_FORM = {
    Kind.BOOLEAN: ">i1",
    Kind.INTEGER: ">i4",
    Kind.BIGINT: ">i8",
    Kind.DOUBLE: ">i8",
    Kind.DATE: ">i4",
    Kind.TIMESTAMP: ">i8",
}
#: Days of 0001-01-01 and 9999-12-31: what can be written as text with a year of four digits.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_US = 86_400_000_000
#: Four times what 38 digits need, for writers that leave zeros at the end; longer numbers are not looked at.
_MAX_UNSCALED_BYTES = 64


def encode_column(encoding: Encoding, type_: SqlType, array: pa.Array) -> list[bytes | None]:
    """The cells of `array` (of Arrow type `type_.arrow`); None for NULL."""
    if type_.kind is Kind.VARCHAR:
        return array.cast(pa.binary()).to_pylist()
    if encoding is Encoding.TEXT:
        return _to_text(type_, array)
    if type_.kind is Kind.DECIMAL:
        write = _bytes_decimal if encoding is Encoding.BYTES else encode_decimal
        return [None if v is None else write(v, type_.scale) for v in decimal_ints(array)]
    matrix = _to_bytes(type_, array) if encoding is Encoding.BYTES else pack(type_, array)
    valid = _there(array).tolist()
    return [cell if ok else None for cell, ok in zip(rows_of(matrix), valid)]


def decode_column(
    encoding: Encoding, type_: SqlType, values: Sequence[bytes | None] | pa.BinaryArray
) -> tuple[pa.Array, Bad]:
    """The values of the cells (None: NULL), and (position, reason) of every cell that holds none."""
    cells = values if isinstance(values, pa.Array) else pa.array(values, pa.binary())
    if type_.kind is Kind.VARCHAR:
        return _where_possible(cells, lambda a: a.cast(pa.string()), "is not valid UTF-8")
    if encoding is Encoding.TEXT:
        return _from_text(type_, cells)
    if encoding is Encoding.PHOENIX:
        cells = _without_empty(cells)
        if type_.kind is Kind.DECIMAL:
            return _from_phoenix_decimals(type_, cells.to_pylist())
        return _from_fixed(type_, cells, WIDTH[type_.kind], unpack)
    if type_.kind is Kind.DECIMAL:
        return _from_bytes_decimals(type_, cells)
    return _from_fixed(type_, cells, np.dtype(_BYTES_FORM[type_.kind]).itemsize, _from_bytes)


def _to_text(type_: SqlType, array: pa.Array) -> list[bytes | None]:
    if type_.kind is Kind.DOUBLE:
        array = _canonical(array)
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        days = fixed_values(type_, array) // (1 if type_.kind is Kind.DATE else _DAY_US)
        outside = (days < _FIRST_DAY) | (days > _LAST_DAY)
        valid = valid_of(array)
        if (outside if valid is None else outside & valid).any():
            raise InvalidValue(
                f"a {type_} outside of the years 1 to 9999 cannot be written as text; "
                "declare the table with encoding bytes or phoenix"
            )
    return array.cast(pa.string()).cast(pa.binary()).to_pylist()


def _from_text(type_: SqlType, cells: pa.Array) -> tuple[pa.Array, Bad]:
    texts, bad = _where_possible(cells, lambda a: a.cast(pa.string()), "is not valid UTF-8")
    out, unreadable = _where_possible(texts, lambda a: convert(type_, a), f"is not a value of {type_}")
    if type_.kind is Kind.DOUBLE:
        out = _canonical(out)
    return out, sorted(bad + unreadable)


def _canonical(array: pa.Array) -> pa.Array:
    """A DOUBLE array without -0.0 and with one NaN."""
    return fixed_array(DOUBLE, double_bits(fixed_values(DOUBLE, array)).view(np.float64), valid_of(array))


def _where_possible(array: pa.Array, cast: Callable[[pa.Array], pa.Array], complaint: str) -> tuple[pa.Array, Bad]:
    """`cast(array)` with NULL where that fails. It halves what fails: k bad values cost k log n casts."""
    try:
        return cast(array), []
    except pa.ArrowInvalid:
        if len(array) == 1:
            return cast(pa.nulls(1, array.type)), [(0, f"{short(array[0].as_py())} {complaint}")]
    middle = len(array) // 2
    left, bad_left = _where_possible(array[:middle], cast, complaint)
    right, bad_right = _where_possible(array[middle:], cast, complaint)
    return pa.concat_arrays([left, right]), bad_left + [(middle + i, reason) for i, reason in bad_right]


def _to_bytes(type_: SqlType, array: pa.Array) -> Matrix:
    values = fixed_values(type_, array)
    if type_.kind is Kind.DOUBLE:
        values = double_bits(values)
    elif type_.kind is Kind.BOOLEAN:
        values = -values.astype(np.int8)
    return as_bytes(values.astype(_BYTES_FORM[type_.kind]))


def _from_bytes(type_: SqlType, matrix: Matrix) -> tuple[pa.Array, Bad]:
    values = from_bytes(matrix, _BYTES_FORM[type_.kind])
    if type_.kind is Kind.DOUBLE:
        values = double_bits(values.view(np.float64)).view(np.float64)
    return fixed_array(type_, values), []


def _from_fixed(
    type_: SqlType, cells: pa.Array, width: int, read: Callable[[SqlType, Matrix], tuple[pa.Array, Bad]]
) -> tuple[pa.Array, Bad]:
    """Cells of one width, read as a matrix; `read` sees only those that are there and have that width."""
    data, starts, lengths = _layout(cells)
    whole = lengths == width
    if whole.all():
        array, bad = read(type_, data.reshape(len(cells), width))
        return _without(array, bad), bad
    wrong = [
        (i, f"{lengths[i]} bytes where {type_} takes {width}") for i in np.flatnonzero(_there(cells) & ~whole).tolist()
    ]
    positions = np.flatnonzero(whole)
    array, bad = read(type_, data[starts[positions, None] + np.arange(width)])
    index = pa.array(np.cumsum(whole) - 1, mask=~whole)
    return _without(array, bad).take(index), sorted(wrong + [(int(positions[i]), reason) for i, reason in bad])


def _without(array: pa.Array, bad: Bad) -> pa.Array:
    """`array` with NULL at the bad positions."""
    if not bad:
        return array
    dropped = np.zeros(len(array), np.bool_)
    dropped[[i for i, _ in bad]] = True
    return array.take(pa.array(np.arange(len(array)), mask=dropped))


def _without_empty(cells: pa.Array) -> pa.Array:
    """NULL where a cell has no bytes."""
    empty = _there(cells) & (_layout(cells)[2] == 0)
    return cells.take(pa.array(np.arange(len(cells)), mask=empty)) if empty.any() else cells


def _there(cells: pa.Array) -> Bool:
    """Which cells are not NULL, as flags that may be changed."""
    return np.array(cells.is_valid(), np.bool_)


def _layout(cells: pa.Array) -> tuple[npt.NDArray[np.uint8], Int64, Int64]:
    """The bytes of all cells of an array without offset; where each cell starts, how long it is (0: NULL)."""
    _, offsets, buffer = cells.buffers()
    if len(cells) == 0 or buffer is None:
        return np.empty(0, np.uint8), np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    ends = np.frombuffer(offsets, np.int32, len(cells) + 1).astype(np.int64)
    return np.frombuffer(buffer, np.uint8, int(ends[-1])), ends[:-1], np.diff(ends)


def _bytes_decimal(unscaled: int, scale: int) -> bytes:
    """As `Bytes.toBytes(BigDecimal)`: the unscaled number in as few bytes as its sign bit allows."""
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return scale.to_bytes(4, "big") + unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def _from_bytes_decimals(type_: SqlType, cells: pa.Array) -> tuple[pa.Array, Bad]:
    """Numbers of the declared scale in up to 8 bytes all at once, others one by one."""
    data, starts, lengths = _layout(cells)
    low, high = np.zeros((2, len(cells)), np.int64)
    valid = _there(cells)
    fast = np.flatnonzero((lengths > 4) & (lengths <= 12))
    fast = fast[from_bytes(data[starts[fast, None] + np.arange(4)], ">i4") == type_.scale]
    numbers = _signed_tails(data, starts[fast] + lengths[fast], lengths[fast] - 4)
    if not type_.wide:
        inside = (numbers < 10**type_.precision) & (numbers > -(10**type_.precision))
        fast, numbers = fast[inside], numbers[inside]
    low[fast] = numbers
    high[fast] = numbers >> 63
    left = valid.copy()
    left[fast] = False
    bad: Bad = []
    slow: list[tuple[int, int]] = []
    for i in np.flatnonzero(left).tolist():
        try:
            slow.append((i, _read_bytes_decimal(type_, cells[i].as_py())))
        except InvalidValue as error:
            bad.append((i, str(error)))
            valid[i] = False
    if slow:
        where = np.array([i for i, _ in slow])
        low[where], high[where] = decimal_words(decimals_of(type_, [v for _, v in slow]))
    return decimal_array(type_, low, high, None if valid.all() else valid), bad


def _signed_tails(data: npt.NDArray[np.uint8], ends: Int64, lengths: Int64) -> Int64:
    """The big-endian numbers of 1 to 8 bytes before `ends`: read 8 bytes, shift what is not theirs out."""
    window = data[np.maximum(ends[:, None] - 8 + np.arange(8), 0)]
    surplus = 64 - 8 * lengths
    return (from_bytes(window, ">i8") << surplus) >> surplus


def _read_bytes_decimal(type_: SqlType, cell: bytes) -> int:
    if not 4 < len(cell) <= 4 + _MAX_UNSCALED_BYTES:
        raise InvalidValue(
            f"{len(cell)} bytes where {type_} takes 4 (scale) and then 1 to {_MAX_UNSCALED_BYTES} (number)"
        )
    scale = int.from_bytes(cell[:4], "big", signed=True)
    return rescale(int.from_bytes(cell[4:], "big", signed=True), type_.scale - scale, type_)


def _from_phoenix_decimals(type_: SqlType, cells: Sequence[bytes | None]) -> tuple[pa.Array, Bad]:
    numbers: list[int | None] = []
    bad: Bad = []
    for i, cell in enumerate(cells):
        try:
            numbers.append(None if cell is None else decode_decimal(type_, cell))
        except InvalidValue as error:
            numbers.append(None)
            bad.append((i, str(error)))
    return decimals_of(type_, numbers), bad
