"""Cell blocks of HBase's WAL stream: from bytes to columns (docs/hbase-stream.md has the layout).

The bytes come from the network, so nothing in them is believed: every length is checked against what is there
before it is used, and a block that lies about one is refused as a whole. No input raises or reads outside.
"""

from __future__ import annotations

import numpy as np

from vms.kernels.hashing import jit
from vms.model.changes import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT, UNDECODABLE

#: Fields of a decoded entry header, in bytes of the request: where its region and table names are, its sequence
#: id, its write time in ms, how many cells of the block are its own, and where its before-images are.
REGION_AT, REGION_LEN, TABLE_AT, TABLE_LEN, SEQ, WRITE_TIME, CELLS, OLD_AT, OLD_LEN = range(9)
ENTRY_FIELDS = 9

#: Fields of a decoded cell, in bytes of the block.
ROW_AT, ROW_LEN, FAMILY_AT, FAMILY_LEN, QUALIFIER_AT, QUALIFIER_LEN, TS, TYPE, VALUE_AT, VALUE_LEN, EXPIRES = range(11)
CELL_FIELDS = 11

#: Types of cells as HBase numbers them.
HBASE_PUT, HBASE_DELETE, HBASE_DELETE_FAMILY_VERSION, HBASE_DELETE_COLUMN, HBASE_DELETE_FAMILY = 4, 8, 10, 12, 14

_TTL_TAG = 8
#: Source rows of a mutation that a cell may join. Not higher, or a mutation of very many timestamps would take
#: the square of its size; not lower, or the cells of some kinds and timestamps in turn would not come together.
_LOOK_BACK = 16
#: Length of a cell without its key and value; of a key without its three names.
_CELL_HEAD, _KEY_REST = 8, 12


@jit
def _int32(b, at):
    return (
        (np.int64(np.int8(b[at])) << 24)
        | (np.int64(b[at + 1]) << 16)
        | (np.int64(b[at + 2]) << 8)
        | np.int64(b[at + 3])
    )


@jit
def _int64(b, at):
    value = np.int64(0)
    for i in range(8):
        value = (value << 8) | np.int64(b[at + i])
    return value


@jit
def _varint(b, at, end):
    """(value, where it ends); the end is -1 where there is none."""
    value = np.int64(0)
    for i in range(10):
        if at >= end:
            return value, -1
        byte = np.int64(b[at])
        at += 1
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, at
    return value, -1


@jit
def _length(b, at, end):
    """(length, where the bytes begin) of a delimited field that ends within `end`; the start is -1 else."""
    n, at = _varint(b, at, end)
    if at < 0 or n < 0 or n > end - at:
        return n, -1
    return n, at


@jit
def _skip(b, at, end, wire):
    """Behind a field that is not wanted; -1 where it does not end within `end`."""
    if wire == 0:
        return _varint(b, at, end)[1]
    if wire == 2:
        n, at = _length(b, at, end)
        return at if at < 0 else at + n
    if wire == 1 or wire == 5:
        at += 8 if wire == 1 else 4
        return at if at <= end else -1
    return -1


@jit
def _attribute(b, at, end, name, out, i):
    """An extended attribute of a WAL key: note where its value is if it has the name that is looked for."""
    key_at, key_len, value_at, value_len = -1, -1, -1, -1
    while at < end:
        tag, at = _varint(b, at, end)
        if at < 0:
            return False
        if tag == 10 or tag == 18:
            n, at = _length(b, at, end)
            if at < 0:
                return False
            if tag == 10:
                key_at, key_len = at, n
            else:
                value_at, value_len = at, n
            at += n
        else:
            at = _skip(b, at, end, tag & 7)
            if at < 0:
                return False
    if key_len != name.shape[0] or value_at < 0:
        return True
    for j in range(key_len):
        if b[key_at + j] != name[j]:
            return True
    out[OLD_AT, i], out[OLD_LEN, i] = value_at, value_len
    return True


@jit
def _wal_key(b, at, end, old_name, out, i):
    while at < end:
        tag, at = _varint(b, at, end)
        if at < 0:
            return False
        field, wire = tag >> 3, tag & 7
        if (field == 1 or field == 2 or field == 12) and wire == 2:
            n, at = _length(b, at, end)
            if at < 0:
                return False
            if field == 12:
                if not _attribute(b, at, at + n, old_name, out, i):
                    return False
            elif field == 1:
                out[REGION_AT, i], out[REGION_LEN, i] = at, n
            else:
                out[TABLE_AT, i], out[TABLE_LEN, i] = at, n
            at += n
        elif (field == 3 or field == 4) and wire == 0:
            value, at = _varint(b, at, end)
            if at < 0:
                return False
            out[SEQ if field == 3 else WRITE_TIME, i] = value
        else:
            at = _skip(b, at, end, wire)
            if at < 0:
                return False
    return True


@jit
def _entry(b, at, end, old_name, out, i):
    """One WAL entry. Cells inside of the message itself (field 2) are not understood: HBase sends a block."""
    for f in range(out.shape[0]):
        out[f, i] = 0
    out[REGION_LEN, i] = out[OLD_LEN, i] = -1
    while at < end:
        tag, at = _varint(b, at, end)
        if at < 0 or tag == 18:
            return False
        if tag == 10:
            n, at = _length(b, at, end)
            if at < 0 or not _wal_key(b, at, at + n, old_name, out, i):
                return False
            at += n
        elif tag == 24:
            out[CELLS, i], at = _varint(b, at, end)
            if at < 0 or out[CELLS, i] < 0:
                return False
        else:
            at = _skip(b, at, end, tag & 7)
            if at < 0:
                return False
    return out[REGION_LEN, i] >= 0


@jit
def entry_headers(b, old_name, out):
    """The entries of a ReplicateWALEntryRequest, as columns of `out` as far as it has some.

    Returns how many there are, or -1 where the message is damaged. `old_name` is the attribute that carries
    before-images.
    """
    at, end, found = 0, b.shape[0], 0
    while at < end:
        tag, at = _varint(b, at, end)
        if at < 0:
            return -1
        if tag != 10:
            at = _skip(b, at, end, tag & 7)
            if at < 0:
                return -1
            continue
        n, at = _length(b, at, end)
        if at < 0:
            return -1
        if found < out.shape[1] and not _entry(b, at, at + n, old_name, out, found):
            return -1
        found += 1
        at += n
    return found


@jit
def count_cells(b):
    """How many cells the block has; -1 where their lengths do not add up to the block's."""
    at, end, found = 0, b.shape[0], 0
    while at < end:
        if end - at < 4:
            return -1
        n = _int32(b, at)
        if n < _CELL_HEAD + _KEY_REST or n > end - at - 4:
            return -1
        at += 4 + n
        found += 1
    return found


@jit
def _expires(b, at, end):
    """1 if a cell with these tags has a time to live of its own, 0 if not, -1 if the tags are damaged."""
    if at == end:
        return 0
    if end - at < 2 or (np.int64(b[at]) << 8 | np.int64(b[at + 1])) != end - at - 2:
        return -1
    at += 2
    found = 0
    while at < end:
        if end - at < 3:
            return -1
        n = np.int64(b[at]) << 8 | np.int64(b[at + 1])
        if n < 1 or n > end - at - 2:
            return -1
        if b[at + 2] == _TTL_TAG:
            found = 1
        at += 2 + n
    return found


@jit
def decode_cells(b, out):
    """The fields of every cell of a block that `count_cells` found right; False where a cell is damaged."""
    at = 0
    for i in range(out.shape[1]):
        n, key, value = _int32(b, at), _int32(b, at + 4), _int32(b, at + 8)
        end = at + 4 + n
        start = at + 12
        if key < _KEY_REST or value < 0 or key > n - _CELL_HEAD or value > n - _CELL_HEAD - key:
            return False
        row = np.int64(b[start]) << 8 | np.int64(b[start + 1])
        if row > key - _KEY_REST:
            return False
        family_at = start + 2 + row + 1
        family = np.int64(b[family_at - 1])
        qualifier = key - _KEY_REST - row - family
        if qualifier < 0:
            return False
        expires = _expires(b, start + key + value, end)
        if expires < 0:
            return False
        out[ROW_AT, i], out[ROW_LEN, i] = start + 2, row
        out[FAMILY_AT, i], out[FAMILY_LEN, i] = family_at, family
        out[QUALIFIER_AT, i], out[QUALIFIER_LEN, i] = family_at + family, qualifier
        out[TS, i] = _int64(b, start + key - 9)
        out[TYPE, i] = b[start + key - 1]
        out[VALUE_AT, i], out[VALUE_LEN, i] = start + key, value
        out[EXPIRES, i] = expires
        at = end
    return True


@jit
def _same(b, at, n, other, other_at, other_n):
    same = n == other_n
    j = 0
    while same and j < n:
        same = b[at + j] == other[other_at + j]
        j += 1
    return same


@jit
def _same_field(b, fields, at, length, i, j):
    """Whether columns i and j of decoded fields stand for the same bytes."""
    return _same(b, fields[at, i], fields[length, i], b, fields[at, j], fields[length, j])


@jit
def region_runs(b, headers, run_of):
    """Number the runs of entries with one table and region; returns how many there are."""
    runs = 0
    for i in range(headers.shape[1]):
        if (
            i == 0
            or not _same_field(b, headers, REGION_AT, REGION_LEN, i, i - 1)
            or not _same_field(b, headers, TABLE_AT, TABLE_LEN, i, i - 1)
        ):
            runs += 1
        run_of[i] = runs - 1
    return runs


@jit
def _kind(type_):
    if type_ == HBASE_PUT:
        return PUT
    if type_ == HBASE_DELETE_FAMILY:
        return DELETE_ROW
    return DELETE_COLUMN if type_ == HBASE_DELETE_COLUMN else DELETE_VERSION


@jit
def group_cells(b, cells, entry_of, family, names, name_at, name_len, all_bits, bit_of, row_of, row_keys, rows):
    """Cells of one table to source rows: one for each mutation, timestamp and kind of change.

    A mutation is a run of cells of one entry with one row key; one with very many timestamps may get two source
    rows for one of them. `names` are the declared qualifiers, one after
    the other. For each cell, `bit_of` gets the number of its column and `row_of` its source row; -1 for a cell
    that is not a put of a declared column. `row_keys` gets, for each mutation, its first cell. `rows` gets, for
    each source row, (mutation, timestamp, kind, bits of the named columns). Returns (mutations, source rows).

    What HBase may do and no kind stands for (a delete of one version of a whole family, types that are not known)
    is a DELETE_VERSION of everything: the row is read from the store again. A put that will expire by itself is
    UNDECODABLE, as nobody will tell of its end.
    """
    n, declared = cells.shape[1], name_at.shape[0]
    found, mutations, guess = 0, 0, 0
    first_row = 0
    for i in range(n):
        bit_of[i] = row_of[i] = -1
        new = i == 0 or entry_of[i] != entry_of[i - 1] or not _same_field(b, cells, ROW_AT, ROW_LEN, i, i - 1)
        if new:
            first_row = found
        if not _same(b, cells[FAMILY_AT, i], cells[FAMILY_LEN, i], family, 0, family.shape[0]):
            continue
        type_, kind = cells[TYPE, i], _kind(cells[TYPE, i])
        bit, bits = -1, np.int64(0)
        if type_ in (HBASE_PUT, HBASE_DELETE, HBASE_DELETE_COLUMN):
            for t in range(declared):
                c = guess + t  # columns come in the same order again and again
                if c >= declared:
                    c -= declared
                if _same(b, cells[QUALIFIER_AT, i], cells[QUALIFIER_LEN, i], names, name_at[c], name_len[c]):
                    bit = c
                    guess = c + 1
                    break
            if bit < 0:
                continue
            bits = np.int64(1) << (63 if bit == declared - 1 else bit)
            if type_ == HBASE_PUT and cells[EXPIRES, i] == 1:
                kind, bit = UNDECODABLE, -1
        elif kind != DELETE_ROW:
            bits = all_bits
        row = found
        for r in range(found - 1, max(first_row, found - _LOOK_BACK) - 1, -1):
            if rows[1, r] == cells[TS, i] and rows[2, r] == kind:
                row = r
                break
        if row == found:
            if found == first_row:
                row_keys[mutations] = i
                mutations += 1
            rows[0, found], rows[1, found], rows[2, found], rows[3, found] = mutations - 1, cells[TS, i], kind, 0
            found += 1
        rows[3, row] |= bits
        row_of[i] = row
        if kind == PUT:
            bit_of[i] = bit
    return mutations, found


@jit
def copy_bytes(b, starts, lengths, offsets, out):
    """The pieces of `b` one after the other; `offsets` gets where each begins, and where the last ends."""
    at = 0
    for i in range(starts.shape[0]):
        offsets[i] = at
        for j in range(lengths[i]):
            out[at + j] = b[starts[i] + j]
        at += lengths[i]
    offsets[starts.shape[0]] = at
