"""Cell blocks of every content, damaged ones included."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels.cell_block import HBASE_PUT, ROW_AT, ROW_LEN, TYPE, VALUE_AT, VALUE_LEN
from vms.kernels.cell_block import TS as CELL_TS
from vms.model.changes import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT
from vms.model.rowkey import encode_key
from vms.model.table import BaseTable, Encoding, TableColumn
from vms.model.types import BIGINT, INTEGER, VARCHAR
from vms.store.base import Cell, Mutation
from vms.stream.decode import RowDecoder
from vms.stream.hbase_batch import read_entries
from vms.stream.hbase_wire import Malformed, read_request
from vms.testing.wal_client import WalCell, WalEntry, frame_bytes, parameter_bytes, request_bytes, wal_cells

TABLE = BaseTable(
    "t",
    (
        TableColumn("k", BIGINT, nullable=False),
        TableColumn("a", BIGINT),
        TableColumn("bb", VARCHAR),
        TableColumn("ab", INTEGER),
    ),
    ("k",),
    encoding=Encoding.BYTES,
)

timestamps = st.one_of(st.integers(0, 5), st.integers(0, 2**63 - 2))
cells = st.builds(
    WalCell,
    row=st.binary(max_size=12),
    family=st.sampled_from([b"d", b"", b"METAFAMILY", b"e"]) | st.binary(max_size=255),
    qualifier=st.sampled_from([b"a", b"bb", b"ab", b"_0", b"b", b""]) | st.binary(max_size=20),
    ts=timestamps,
    type=st.sampled_from([4, 8, 10, 12, 14]) | st.integers(0, 255),
    value=st.binary(max_size=20),
    tags=st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=9)), max_size=2).map(tuple),
)
entries = st.builds(
    WalEntry,
    table=st.sampled_from(["t", "u"]),
    region=st.sampled_from(["r1", "r2"]),
    seq=st.integers(1, 2**62),
    cells=st.lists(cells, max_size=6).map(tuple),
)


@settings(deadline=None)
@given(st.lists(entries, min_size=1, max_size=6))
def test_what_was_written_is_read(wanted):
    request = read_request(request_bytes(1, wanted)[4:])
    batches = read_entries(request.parameter, request.block)
    assert [(b.table, b.region) for b in batches] == list(dict.fromkeys((e.table, e.region) for e in wanted))
    for batch in batches:
        mine = [e for e in wanted if (e.table, e.region) == (batch.table, batch.region)]
        columns = batch.cells
        flat = [(e.seq, c) for e in mine for c in e.cells]
        assert columns.seqs.tolist() == [seq for seq, _ in flat]
        assert columns.cells[CELL_TS].tolist() == [c.ts for _, c in flat]
        assert columns.cells[TYPE].tolist() == [c.type for _, c in flat]
        assert columns.gather(ROW_AT, ROW_LEN, np.arange(len(flat))).to_pylist() == [c.row for _, c in flat]
        assert columns.gather(VALUE_AT, VALUE_LEN, np.arange(len(flat))).to_pylist() == [c.value for _, c in flat]
        rows, _ = batch.decode(RowDecoder(TABLE))
        rows.validate(full=True)


mutation_cells = st.builds(
    Cell,
    column=st.sampled_from([b"d:a", b"d:bb", b"d:ab", b"d:_0", b"d:zz", b"e:a"]),
    ts=st.integers(1, 4),
    kind=st.sampled_from([PUT, PUT, PUT, DELETE_COLUMN, DELETE_VERSION]),
    value=st.sampled_from([b"", b"\0\0\0\1", bytes(8), b"x"]),
)
row_deletes = st.builds(Cell, column=st.sampled_from([b"d:", b"e:"]), ts=st.integers(1, 4), kind=st.just(DELETE_ROW))
keys = st.sampled_from([encode_key([BIGINT], [k]) for k in (1, 2)] + [b"bad"])
mutations = st.builds(Mutation, keys, st.lists(mutation_cells | row_deletes, min_size=1, max_size=6).map(tuple))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(mutations, min_size=1, max_size=3), max_size=4))
def test_cells_and_mutations_give_the_same_source_rows(batch):
    """Two ways to the same rows: the kernel's, and the one that is written cell by cell."""
    batch = [[m for i, m in enumerate(entry) if i == 0 or m.row != entry[i - 1].row] for entry in batch]
    wal = [WalEntry("t", "r1", 10 + i, wal_cells(entry)) for i, entry in enumerate(batch)]
    request = read_request(request_bytes(1, wal)[4:])
    expected, expected_letters = RowDecoder(TABLE).decode([(10 + i, m) for i, e in enumerate(batch) for m in e])
    found = [b.decode(RowDecoder(TABLE)) for b in read_entries(request.parameter, request.block)]
    if not found:
        assert expected.num_rows == 0
        return
    ((rows, letters),) = found
    assert rows.to_pylist() == expected.to_pylist()
    assert letters == expected_letters


@settings(max_examples=300, deadline=None)
@given(st.lists(entries, min_size=1, max_size=3), st.data())
def test_damaged_requests_are_refused_or_read_and_never_crash(wanted, data):
    """Any bytes changed, cut off or put in: a request is Malformed, or its batches can be decoded."""
    frame = bytearray(request_bytes(1, wanted)[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(frame) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "put"])):
            case "flip":
                frame[at] = data.draw(st.sampled_from([0, 1, 127, 128, 255]) | st.integers(0, 255))
            case "cut" if len(frame) > 1:
                del frame[at:]
            case "put":
                frame[at:at] = data.draw(st.binary(max_size=9))
        if not frame:
            return
    _decode_whatever(bytes(frame))


@settings(max_examples=300, deadline=None)
@given(st.lists(entries, min_size=1, max_size=3), st.binary(max_size=200), st.data())
def test_hostile_blocks_are_refused_or_read_and_never_crash(wanted, noise, data):
    """A right message with cells that are anything; lengths of any size among them."""
    block = bytearray(b"".join(request_bytes(1, [e]) for e in wanted) + noise)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(0, len(block) - 4)))
        number = data.draw(st.sampled_from([0, 8, 19, 20, 24, 2**31 - 1, 2**32 - 1, 2**31]) | st.integers(0, 64))
        block[at : at + 4] = number.to_bytes(4, "big")
    whole = [WalEntry("t", "r1", 1, (WalCell(b"k", b"d", b"a", 1, HBASE_PUT, bytes(block[:60])),))]
    good = request_bytes(1, whole)
    position = data.draw(st.integers(0, len(good) - 5))
    count = data.draw(st.integers(0, 3))
    entry = WalEntry("t", "r1", 1, (WalCell(b"", b"", b"", 0),) * count)
    _decode_whatever(frame_bytes(1, parameter_bytes([entry]), bytes(block))[4:])
    _decode_whatever(good[4 : 4 + position])


def _decode_whatever(frame: bytes) -> None:
    try:
        request = read_request(frame)
        batches = read_entries(request.parameter, request.block)
    except Malformed:
        return
    for batch in batches:
        rows, letters = batch.decode(RowDecoder(TABLE))
        rows.validate(full=True)
        assert batch.gap is None or batch.gap
        assert rows.num_rows <= batch.mutations and len(letters) <= 2 * batch.mutations
