"""Before-images: the rows before and after each entry of the WAL, which the plug-in attaches to it.

The attribute of an entry is the length of its first block (int32) and two cell blocks, the declared cells before and
after it, of the rows that it changes (deploy/hbase-plugin, Images.java). With them a change is -old +new by itself:
nothing needs to be remembered of the table, and nothing to be read again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vms.kernels.cell_block import CELL_FIELDS, ROW_AT, copy_bytes, count_cells, decode_cells
from vms.model.changes import AFTER, BEFORE, PUT, Int64
from vms.stream.decode import KIND, SEQ, CellColumns, DeadLetter, RowDecoder

#: Name of the attribute.
ATTRIBUTE = b"vms.images"
_LENGTH = 4


class Images(NamedTuple):
    """Where in a request the attributes of some entries are; length -1: an entry has none."""

    message: npt.NDArray[np.uint8]
    at: Int64
    length: Int64
    seqs: Int64

    def since(self, floor: int) -> Images:
        """Of the entries from sequence id `floor` on."""
        keep = self.seqs >= floor
        return Images(self.message, self.at[keep], self.length[keep], self.seqs[keep])

    def cells(self) -> tuple[CellColumns, CellColumns] | None:
        """The rows before, and those after; None where they cannot be read."""
        there = self.length >= 0
        at, length, seqs = self.at[there], self.length[there], self.seqs[there]
        if (length < _LENGTH).any():
            return None
        first = self.message[at[:, None] + np.arange(_LENGTH)].view(">i4").reshape(len(at)).astype(np.int64)
        if ((first < 0) | (first > length - _LENGTH)).any():
            return None
        start = at + _LENGTH
        before = _block(self.message, start, first, seqs)
        after = _block(self.message, start + first, length - _LENGTH - first, seqs)
        return None if before is None or after is None else (before, after)


def _block(message: npt.NDArray[np.uint8], starts: Int64, lengths: Int64, seqs: Int64) -> CellColumns | None:
    """The cells of these pieces of the message."""
    offsets, block = np.empty(len(starts) + 1, np.int32), np.empty(int(lengths.sum()), np.uint8)
    copy_bytes(message, starts, lengths, offsets, block)
    block.setflags(write=False)
    count = count_cells(block)
    if count < 0:
        return None
    cells = np.empty((CELL_FIELDS, count), np.int64)
    if not decode_cells(block, cells):
        return None
    entry_of = np.searchsorted(offsets.astype(np.int64), cells[ROW_AT], side="right") - 1
    return CellColumns(block, cells, entry_of, seqs[entry_of])


def decode_images(
    decoder: RowDecoder, before: CellColumns, after: CellColumns
) -> tuple[pa.RecordBatch, list[DeadLetter]]:
    """Source rows of kind BEFORE and AFTER, in stream order, a row's BEFORE in front of its AFTER.

    A row that is not there, or has a cell that cannot be decoded, has none; the letters are of the rows after.
    """
    old, _ = decoder.decode_cells(before)
    new, letters = decoder.decode_cells(after)
    rows = pa.concat_batches([_of_kind(old, BEFORE), _of_kind(new, AFTER)])
    order = np.argsort(rows.column(SEQ).to_numpy(), kind="stable")
    return rows.take(pa.array(order)), letters


def _of_kind(rows: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    good = rows.filter(pc.equal(rows.column(KIND), PUT))
    kinds = pa.array(np.full(good.num_rows, kind, np.int8))
    return good.set_column(good.schema.get_field_index(KIND), KIND, kinds)
