"""HBase's requests and cell blocks, taken apart: plain examples."""

from __future__ import annotations

import pytest

from vms.kernels.cell_block import HBASE_DELETE_FAMILY_VERSION, HBASE_PUT
from vms.model.changes import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT, UNDECODABLE
from vms.model.rowkey import encode_key
from vms.model.table import BaseTable, Encoding, TableColumn
from vms.model.types import BIGINT, VARCHAR
from vms.store.base import Cell, Mutation
from vms.stream.decode import EXPIRING, RowDecoder
from vms.stream.hbase_batch import WalBatch, read_entries
from vms.stream.hbase_wire import BUSY, Malformed, check_preamble, failure, read_header, read_request, success
from vms.testing.wal_client import WalCell, WalEntry, cell_bytes, frame_bytes, parameter_bytes, request_bytes, wal_cells

TABLE = BaseTable(
    "t",
    (TableColumn("k", BIGINT, nullable=False), TableColumn("a", BIGINT), TableColumn("b", VARCHAR)),
    ("k",),
    encoding=Encoding.TEXT,
)
MARKER = 1 << 63


def key(k: int) -> bytes:
    return encode_key([BIGINT], [k])


def received(*entries: WalEntry) -> list[WalBatch]:
    request = read_request(request_bytes(7, entries)[4:])
    assert (request.call, request.method) == (7, "ReplicateWALEntry")
    return read_entries(request.parameter, request.block)


def rows_of(*cells: WalCell, seq: int = 5):
    (batch,) = received(WalEntry("t", "r1", seq, cells))
    rows, letters = batch.decode(RowDecoder(TABLE))
    rows.validate(full=True)
    return rows.to_pylist(), letters


def test_entries_come_as_one_batch_for_each_region_in_their_order():
    cell = WalCell(key(1), b"d", b"a", 9, HBASE_PUT, b"1")
    batches = received(
        WalEntry("t", "r1", 5, (cell, cell), 1000),
        WalEntry("t", "r2", 8, (cell,), 900),
        WalEntry("t", "r1", 7, (cell,), 800),
        WalEntry("other", "r1", 3, ()),
    )
    assert [(b.table, b.region, b.first, b.last, b.entries, b.mutations) for b in batches] == [
        ("t", "r1", 5, 7, 2, 3),
        ("t", "r2", 8, 8, 1, 1),
        ("other", "r1", 3, 3, 1, 0),
    ]
    assert batches[0].cells.seqs.tolist() == [5, 5, 7]
    assert batches[0].written_ms == 800


def test_all_kinds_of_cells():
    """Undeclared columns and families are ignored; what no kind stands for makes the row be read again."""
    rows, letters = rows_of(
        *wal_cells(
            [
                Mutation(key(1), (Cell(b"d:a", 9, PUT, b"1"), Cell(b"d:_0", 9), Cell(b"d:zz", 9, PUT, b"?"))),
                Mutation(key(2), (Cell(b"d:", 9, DELETE_ROW), Cell(b"d:b", 8, DELETE_COLUMN))),
                Mutation(key(3), (Cell(b"d:b", 9, DELETE_VERSION), Cell(b"e:b", 9, PUT, b"?"))),
                Mutation(key(4), (Cell(b"e:", 9, DELETE_ROW),)),
            ]
        ),
        WalCell(key(5), b"d", b"", 9, HBASE_DELETE_FAMILY_VERSION),
        WalCell(key(6), b"d", b"a", 9, 77, b"?"),
    )
    assert letters == []
    assert [(r["k"], r["_ts"], r["_kind"], r["_present"], r["a"]) for r in rows] == [
        (1, 9, PUT, MARKER | 0b01, 1),
        (2, 8, DELETE_COLUMN, 0b10, None),
        (2, 9, DELETE_ROW, 0, None),
        (3, 9, DELETE_VERSION, 0b10, None),
        (5, 9, DELETE_VERSION, MARKER | 0b11, None),
        (6, 9, DELETE_VERSION, MARKER | 0b11, None),
    ]


def test_undecodable_values_and_keys_are_dead_letters():
    rows, letters = rows_of(
        WalCell(key(1), b"d", b"a", 9, HBASE_PUT, b"abc"),
        WalCell(b"?", b"d", b"a", 9, HBASE_PUT, b"1"),
        WalCell(key(2), b"d", b"a", 9, HBASE_PUT, b"2"),
    )
    assert [(r["k"], r["_kind"], r["a"]) for r in rows] == [(1, UNDECODABLE, None), (2, PUT, 2)]
    assert [(x.row, x.column, x.seq, x.value) for x in letters] == [(key(1), "a", 5, b"abc"), (b"?", "", 5, b"")]


def test_a_cell_with_its_own_time_to_live_is_a_dead_letter():
    """Its end is in no WAL. Other tags are of no interest."""
    rows, letters = rows_of(
        WalCell(key(1), b"d", b"a", 9, HBASE_PUT, b"1", ((1, b"acl"),)),
        WalCell(key(2), b"d", b"b", 9, HBASE_PUT, b"x", ((3, b"?"), (8, b"\0\0\0\0\0\0\x03\xe8"))),
    )
    assert [(r["k"], r["_kind"], r["b"]) for r in rows] == [(1, PUT, None), (2, UNDECODABLE, None)]
    assert [(x.row, x.column, x.value, x.reason) for x in letters] == [(key(2), "b", b"x", EXPIRING)]


def test_one_row_with_very_many_timestamps():
    rows, _ = rows_of(*(WalCell(key(1), b"d", b"a", 1 + i % 300, HBASE_PUT, b"%d" % i) for i in range(600)))
    assert [r["_ts"] for r in rows] == sorted(r["_ts"] for r in rows)
    last = {r["_ts"]: r["a"] for r in rows}
    assert last == {1 + i: 300 + i for i in range(300)}


def test_entries_below_a_floor_are_cut_off():
    cell = WalCell(key(1), b"d", b"a", 9, HBASE_PUT, b"1")
    load = WalCell(b"t", b"METAFAMILY", b"HBASE::BULK_LOAD", 9)
    (batch,) = received(
        WalEntry("t", "r1", 5, (load,)), WalEntry("t", "r1", 6, (cell,)), WalEntry("t", "r1", 7, (cell,))
    )
    assert batch.gap is not None and "bulk-loaded" in batch.gap
    assert batch.since(5) is batch
    kept = batch.since(7)
    assert kept is not None and (kept.first, kept.last, kept.entries, kept.mutations, kept.gap) == (7, 7, 1, 1, None)
    assert batch.since(8) is None


def test_markers_of_regions_are_no_changes():
    rows, letters = rows_of(WalCell(b"t", b"METAFAMILY", b"HBASE::REGION_EVENT::OPEN", 9, HBASE_PUT, b"..."))
    assert (rows, letters) == ([], [])


@pytest.mark.parametrize("block", [b"\0\0\0\5abc", cell_bytes(WalCell(b"k", b"d", b"a", 1))[:-1], b""])
def test_a_block_that_cannot_be_read_is_a_gap_of_its_regions(block):
    entry = WalEntry("t", "r1", 5, (WalCell(b"k", b"d", b"a", 1),))
    request = read_request(frame_bytes(1, parameter_bytes([entry]), block)[4:])
    (batch,) = read_entries(request.parameter, request.block)
    assert (batch.table, batch.last, batch.mutations) == ("t", 5, 0)
    assert batch.gap is not None and "holds no cells that can be read" in batch.gap
    rows, letters = batch.decode(RowDecoder(TABLE))
    assert rows.num_rows == 0 and letters == []


def test_answers():
    assert success(300) == b"\0\0\0\5\x03\x08\xac\x02\0"
    assert BUSY.encode() in failure(300, BUSY, "later")


def test_what_is_not_our_rpc():
    with pytest.raises(Malformed, match="not HBase"):
        check_preamble(b"GET / ")
    with pytest.raises(Malformed, match="Kerberos"):
        check_preamble(b"HBas\x00\x51")
    check_preamble(b"HBas\x00\x50")
    header = read_header(b"\x12\x0cAdminService\x1a\x01c")
    assert (header.service, header.codec, header.compressor) == ("AdminService", "c", "")
    for damaged in (b"", b"\xff", b"\x02\x08", b"\x00", b"\x04\x08\x01\x1a\x09a"):
        with pytest.raises(Malformed):
            read_request(damaged)
