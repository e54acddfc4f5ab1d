"""The last known rows of a base table: which changes the stream alone decides, and what they do to a row.

A row's state is one row of int64 words: the fields below, then its value words (`key_words`, nullable; the
last word is the mask of the NULLs, as a table has fewer than 64 value columns). A row that is absent or
cannot be decoded has no bit in PRESENT and all values NULL, so that equal states are equal words.
"""

from __future__ import annotations

import numpy as np

from vms.kernels.hashing import jit
from vms.kernels.keys import row_call, row_jit
from vms.model.changes import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT, UNDECODABLE

#: Fields of a row's state: bits of the cells that exist; the highest timestamp of any change; the highest
#: timestamp of any delete; whether a cell could not be decoded; then the value words.
PRESENT, TS, DELETE_TS, BAD, VALUES = range(5)


@row_jit
def is_delete(kind):
    """Whether a change hides cells up to its timestamp."""
    return kind in (DELETE_ROW, DELETE_COLUMN)


@row_jit
def decided(kind, ts, row_ts, row_delete_ts, bad):
    """Whether a change is on top of all that is known of its row, so that it needs no read of the store.

    A put must also be above every delete: HBase hides a put at the timestamp of a delete that came before it.
    """
    if bad != 0 or kind == DELETE_VERSION or ts < row_ts:
        return False
    return is_delete(kind) or ts > row_delete_ts


@jit
def undecided(rows, mark, ids, unknown_mark, unknown_ts, kinds, ts):
    """Positions of the first undecided change of each row that has one; the rows stay as they are.

    `ids` from len(mark) on number rows that are not known; they begin as if deleted at `unknown_ts`. `mark`
    is all zero before and after: it numbers the rows of the batch meanwhile.
    """
    n, known = ids.shape[0], mark.shape[0]
    row_ts, row_delete_ts = np.empty(n, np.int64), np.empty(n, np.int64)
    bad, asked = np.empty(n, np.int64), np.zeros(n, np.bool_)
    positions = np.empty(n, np.int64)
    groups, found = 0, 0
    for i in range(n):
        id_ = ids[i]
        group = (mark[id_] if id_ < known else unknown_mark[id_ - known]) - 1
        if group < 0:
            group = groups
            groups += 1
            if id_ < known:
                mark[id_] = groups
                row_ts[group], row_delete_ts[group] = rows[id_, TS], rows[id_, DELETE_TS]
                bad[group] = rows[id_, BAD]
            else:
                unknown_mark[id_ - known] = groups
                row_ts[group], row_delete_ts[group], bad[group] = unknown_ts, unknown_ts, 0
        if asked[group]:
            continue
        if not decided(kinds[i], ts[i], row_ts[group], row_delete_ts[group], bad[group]):
            asked[group] = True
            positions[found] = i
            found += 1
            continue
        row_ts[group] = ts[i]
        if is_delete(kinds[i]):
            row_delete_ts[group] = ts[i]
        bad[group] = 1 if kinds[i] == UNDECODABLE else 0
    for i in range(n):
        if ids[i] < known:
            mark[ids[i]] = 0
    return positions[:found]


@row_jit
def _clear(rows, id_, null_mask):
    rows[id_, PRESENT] = 0
    rows[id_, BAD] = 0
    last = rows.shape[1] - 1
    for c in range(VALUES, last):
        rows[id_, c] = 0
    rows[id_, last] = null_mask


@jit
def start_rows(rows, ids, ts, null_mask):
    """Make these rows absent, as if deleted at `ts`."""
    for i in range(ids.shape[0]):
        _clear(rows, ids[i], null_mask)
        rows[ids[i], TS], rows[ids[i], DELETE_TS] = ts, ts


@row_jit
def _put(rows, id_, named, values, i, bits, offsets, read):
    """Set the named cells from row i of `values`; `read` are the bits of all columns that are read."""
    rows[id_, PRESENT] |= named
    if named & read == read:
        for c in range(values.shape[1]):
            rows[id_, VALUES + c] = values[i, c]
    else:
        last, mask = rows.shape[1] - 1, values.shape[1] - 1
        for r in range(bits.shape[0]):
            if (named >> bits[r]) & 1:
                for c in range(offsets[r], offsets[r + 1]):
                    rows[id_, VALUES + c] = values[i, c]
                bit = np.int64(1) << r
                rows[id_, last] = (rows[id_, last] & ~bit) | (values[i, mask] & bit)


@row_call
def _delete_columns(rows, id_, named, bits, offsets):
    rows[id_, PRESENT] &= ~named
    last = rows.shape[1] - 1
    for r in range(bits.shape[0]):
        if (named >> bits[r]) & 1:
            for c in range(offsets[r], offsets[r + 1]):
                rows[id_, VALUES + c] = 0
            rows[id_, last] |= np.int64(1) << r


@jit
def apply_changes(rows, mark, ids, rereads, kinds, ts, named, values, bits, offsets, touched, old):
    """Apply the changes in order; the first `rereads` are rows as the store gave them, each the whole truth.

    A re-read row ignores the other changes of the batch except for their timestamps. `touched` gets the id of
    every row once and `old` its state before (values only where it was there). Returns (rows touched, position
    of a change that is neither decided nor of a re-read row, or -1). Read column r is the cell of bit `bits[r]`
    and has the value words from offsets[r] to offsets[r + 1]. `mark` is all zero before and after.
    """
    null_mask = (np.int64(1) << bits.shape[0]) - 1
    read = np.int64(0)
    for r in range(bits.shape[0]):
        read |= np.int64(1) << bits[r]
    count = 0
    for i in range(ids.shape[0]):
        id_, kind = ids[i], kinds[i]
        if mark[id_] == 0:
            mark[id_] = 1
            touched[count] = id_
            old[count, PRESENT], old[count, BAD] = rows[id_, PRESENT], rows[id_, BAD]
            if rows[id_, PRESENT] != 0:
                for c in range(VALUES, rows.shape[1]):
                    old[count, c] = rows[id_, c]
            count += 1
        if i < rereads or mark[id_] == 2:
            mark[id_] = 2
            rows[id_, TS] = max(rows[id_, TS], ts[i])
            rows[id_, DELETE_TS] = rows[id_, TS]
            if i >= rereads:
                continue
            _clear(rows, id_, null_mask)
        else:
            if not decided(kind, ts[i], rows[id_, TS], rows[id_, DELETE_TS], rows[id_, BAD]):
                return count, i
            rows[id_, TS] = ts[i]
            if is_delete(kind):
                rows[id_, DELETE_TS] = ts[i]
        if kind == PUT:
            _put(rows, id_, named[i], values, i, bits, offsets, read)
        elif kind == DELETE_COLUMN:
            _delete_columns(rows, id_, named[i], bits, offsets)
        else:
            _clear(rows, id_, null_mask)
            if kind == UNDECODABLE:
                rows[id_, BAD] = 1
    for g in range(count):
        mark[touched[g]] = 0
    return count, -1


@row_jit
def _write(out_keys, out_values, m, keys, id_, state, s):
    for c in range(keys.shape[1]):
        out_keys[m, c] = keys[id_, c]
    for c in range(out_values.shape[1]):
        out_values[m, c] = state[s, VALUES + c]


@jit
def changed_rows(rows, keys, touched, old, out_keys, out_values, weights):
    """Write -old +new of every touched row whose visible content differs.

    Returns (rows written, by how many the rows that are not absent have grown).
    """
    m, live = 0, 0
    for g in range(touched.shape[0]):
        id_ = touched[g]
        was, is_ = old[g, PRESENT] != 0, rows[id_, PRESENT] != 0
        live += (1 if is_ or rows[id_, BAD] != 0 else 0) - (1 if was or old[g, BAD] != 0 else 0)
        same = was == is_
        if was and is_:
            for c in range(VALUES, rows.shape[1]):
                if rows[id_, c] != old[g, c]:
                    same = False
                    break
        if same:
            continue
        if was:
            _write(out_keys, out_values, m, keys, id_, old, g)
            weights[m] = -1
            m += 1
        if is_:
            _write(out_keys, out_values, m, keys, id_, rows, id_)
            weights[m] = 1
            m += 1
    return m, live
