"""WAL entries as they arrive: a request of HBase's replication, taken apart into batches of one region each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vms.kernels.cell_block import (
    CELL_FIELDS,
    CELLS,
    ENTRY_FIELDS,
    FAMILY_AT,
    FAMILY_LEN,
    OLD_AT,
    OLD_LEN,
    QUALIFIER_AT,
    QUALIFIER_LEN,
    REGION_AT,
    REGION_LEN,
    SEQ,
    TABLE_AT,
    TABLE_LEN,
    WRITE_TIME,
    count_cells,
    decode_cells,
    entry_headers,
    region_runs,
)
from vms.model.changes import Int64
from vms.stream.decode import CellColumns, DeadLetter, RowDecoder
from vms.stream.hbase_images import ATTRIBUTE, Images, decode_images
from vms.stream.hbase_wire import Malformed

#: Family of the cells in which HBase tells itself about regions, and the one among them that concerns us.
META_FAMILY, BULK_LOAD = b"METAFAMILY", b"HBASE::BULK_LOAD"
_IMAGES = np.frombuffer(ATTRIBUTE, np.uint8)


@dataclass(frozen=True, eq=False, slots=True)
class WalBatch:
    """A `StreamBatch` of cells that are still bytes of HBase's request."""

    table: str
    region: str
    first: int
    last: int
    cells: CellColumns
    entries: int
    size: int
    #: When the region server wrote the first entry.
    written_ms: int
    images: Images
    gap: str | None = None

    @property
    def mutations(self) -> int:
        return self.cells.cells.shape[1]

    def decode(self, decoder: RowDecoder) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        found = self.images.cells() if decoder.images else None
        return decoder.decode_cells(self.cells) if found is None else decode_images(decoder, *found)

    @property
    def has_images(self) -> bool:
        """HBase's own cells, which tell of flushes and the like, have none and need none."""
        bare = self.images.seqs[self.images.length < 0]
        cells = self.cells
        needed = (
            cells.bytes_at(FAMILY_AT, FAMILY_LEN, i) != META_FAMILY
            for i in np.flatnonzero(np.isin(cells.seqs, bare)).tolist()
        )
        return not any(needed) and self.images.cells() is not None

    def since(self, floor: int) -> WalBatch | None:
        """The entries from sequence id `floor` on; None where there is none."""
        if self.first >= floor:
            return self
        if self.last < floor:
            return None
        cells = self.cells
        keep = np.flatnonzero(cells.seqs >= floor)
        seqs = cells.seqs[keep]
        kept = CellColumns(cells.block, cells.cells[:, keep], cells.entry_of[keep], seqs)
        first = int(seqs[0]) if len(seqs) else self.last
        entries = len(np.unique(kept.entry_of))
        gap = _bulk_load(kept) if self.mutations else self.gap
        images = self.images.since(floor)
        return WalBatch(
            self.table, self.region, first, self.last, kept, entries, self.size, self.written_ms, images, gap
        )


def read_entries(parameter: memoryview, block: memoryview) -> list[WalBatch]:
    """The entries of a request by region, in their order. Raises Malformed where it is not one.

    Where only the cells cannot be read, the batches say what is lost (`gap`): the entries are HBase's, and it
    would send them again for ever.
    """
    message = _array(parameter)
    count = entry_headers(message, _IMAGES, np.empty((ENTRY_FIELDS, 0), np.int64))
    headers = np.empty((ENTRY_FIELDS, max(count, 0)), np.int64)
    if count < 0 or entry_headers(message, _IMAGES, headers) < 0:
        raise Malformed("the entries of a request cannot be read")
    data, cells, damage = _read_cells(_array(block), headers)
    entry_of = np.repeat(np.arange(count), headers[CELLS] if damage is None else 0)
    run_of = np.empty(count, np.int64)
    runs = region_runs(message, headers, run_of)
    by_region: dict[tuple[str, str], list[int]] = {}
    for run, first in enumerate(np.searchsorted(run_of, np.arange(runs)).tolist()):
        name = (
            _name(parameter, headers, TABLE_AT, TABLE_LEN, first),
            _name(parameter, headers, REGION_AT, REGION_LEN, first),
        )
        by_region.setdefault(name, []).append(run)
    found = []
    for (table, region), its_runs in by_region.items():
        mine = np.isin(run_of, its_runs)
        of_cells = np.flatnonzero(mine[entry_of])
        owned = cells if len(of_cells) == cells.shape[1] else cells[:, of_cells]
        seqs, written = headers[SEQ, mine], headers[WRITE_TIME, mine]
        size = len(block) * int(mine.sum()) // count
        columns = CellColumns(data, owned, entry_of[of_cells], headers[SEQ, entry_of[of_cells]])
        gap = damage or _bulk_load(columns)
        ends = int(seqs.min()), int(seqs.max())
        images = Images(message, headers[OLD_AT, mine], headers[OLD_LEN, mine], seqs)
        found.append(WalBatch(table, region, *ends, columns, int(mine.sum()), size, int(written.min()), images, gap))
    return found


def _array(data: memoryview) -> npt.NDArray[np.uint8]:
    """Always read-only, so that the kernels are compiled once."""
    array = np.frombuffer(data, np.uint8)
    array.setflags(write=False)
    return array


def _read_cells(data: npt.NDArray[np.uint8], headers: Int64) -> tuple[npt.NDArray[np.uint8], Int64, str | None]:
    """The block, its decoded cells, and why there are none."""
    count = count_cells(data)
    declared = headers[CELLS]
    if count >= 0 and (declared <= count).all() and int(declared.sum()) == count:
        cells = np.empty((CELL_FIELDS, count), np.int64)
        if decode_cells(data, cells):
            return data, cells, None
    damage = f"a block of {len(data)} bytes holds no cells that can be read"
    return data, np.empty((CELL_FIELDS, 0), np.int64), damage


def _name(parameter: memoryview, headers: Int64, at: int, length: int, entry: int) -> str:
    start = int(headers[at, entry])
    return bytes(parameter[start : start + int(headers[length, entry])]).decode(errors="backslashreplace")


def _bulk_load(columns: CellColumns) -> str | None:
    """Whether rows came into the table by files, which the WAL does not show."""
    for i in np.flatnonzero(columns.cells[FAMILY_LEN] == len(META_FAMILY)).tolist():
        if columns.bytes_at(FAMILY_AT, FAMILY_LEN, i) == META_FAMILY and columns.bytes_at(
            QUALIFIER_AT, QUALIFIER_LEN, i
        ).startswith(BULK_LOAD):
            return "files were bulk-loaded into it"
    return None
