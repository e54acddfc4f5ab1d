"""Mutations to source rows and back."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from vms.errors import InvalidValue, UnknownName
from vms.model.changes import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT, UNDECODABLE
from vms.model.rowkey import encode_key
from vms.model.table import BaseTable, Encoding, TableColumn
from vms.model.types import BIGINT, INTEGER, VARCHAR, decimal
from vms.store.base import Cell, Mutation, Version
from vms.stream.decode import RowDecoder, read_rows
from vms.stream.encode import RowEncoder

MARKER = 1 << 63
TABLE = BaseTable(
    "orders",
    (
        TableColumn("id", BIGINT, nullable=False),
        TableColumn("line", INTEGER, nullable=False),
        TableColumn("price", decimal(10, 2)),
        TableColumn("note", VARCHAR),
        TableColumn("n", INTEGER, nullable=False),
    ),
    ("id", "line"),
    encoding=Encoding.TEXT,
)


def key(id_: int, line: int = 1) -> bytes:
    return encode_key([BIGINT, INTEGER], [id_, line])


def decoded(*mutations: Mutation, table: BaseTable = TABLE):
    batch, letters = RowDecoder(table).decode([(10 + i, m) for i, m in enumerate(mutations)])
    batch.validate(full=True)
    return batch.to_pylist(), letters


def row(id_, seq, ts, kind, present, *, line=1, price=None, note=None, n=None):
    return {
        "id": id_,
        "line": line,
        "price": price,
        "note": note,
        "n": n,
        "_seq": seq,
        "_ts": ts,
        "_kind": kind,
        "_present": present,
    }


def test_puts_of_some_columns():
    rows, letters = decoded(
        Mutation(key(1), (Cell(b"d:price", 5, PUT, b"1.50"), Cell(b"d:_0", 5))),
        Mutation(key(2), (Cell(b"d:note", 6, PUT, b""), Cell(b"d:n", 6, PUT, b"-3"))),
    )
    assert letters == []
    assert rows == [
        row(1, 10, 5, PUT, MARKER | 0b001, price=Decimal("1.50")),
        row(2, 11, 6, PUT, 0b110, note="", n=-3),
    ]


def test_several_kinds_and_timestamps_in_one_mutation():
    """Ascending timestamps; at one timestamp the put before the deletes that mask it."""
    rows, _ = decoded(
        Mutation(
            key(1),
            (
                Cell(b"d:price", 9, DELETE_COLUMN),
                Cell(b"d:note", 9, PUT, b"new"),
                Cell(b"d:note", 7, DELETE_VERSION),
                Cell(b"d:n", 7, PUT, b"1"),
                Cell(b"d:n", 9, DELETE_COLUMN),
                Cell(b"d:price", 9, PUT, b"2"),
                Cell(b"d:", 8, DELETE_ROW),
            ),
        ),
        Mutation(key(2), (Cell(b"d:n", 1, PUT, b"2"),)),
    )
    assert rows == [
        row(1, 10, 7, PUT, 0b100, n=1),
        row(1, 10, 7, DELETE_VERSION, 0b010),
        row(1, 10, 8, DELETE_ROW, 0),
        row(1, 10, 9, PUT, 0b011, price=Decimal("2.00"), note="new"),
        row(1, 10, 9, DELETE_COLUMN, 0b101),
        row(2, 11, 1, PUT, 0b100, n=2),
    ]


def test_what_is_not_declared_is_ignored():
    rows, letters = decoded(
        Mutation(key(1), (Cell(b"d:other", 5, PUT, b"x"), Cell(b"e:price", 5, PUT, b"x"))),
        Mutation(key(2), (Cell(b"e:", 5, DELETE_ROW), Cell(b"d:other", 5, DELETE_COLUMN))),
        Mutation(b"bad key", (Cell(b"e:", 5, DELETE_ROW),)),
        Mutation(key(3), (Cell(b"d:other", 9, PUT, b"x"), Cell(b"d:n", 5, PUT, b"1"), Cell(b"d:", 5, PUT, b"x"))),
    )
    assert letters == []
    assert rows == [row(3, 13, 5, PUT, 0b100, n=1)]


def test_an_undecodable_value_is_a_dead_letter_and_marks_the_row():
    rows, letters = decoded(
        Mutation(key(1), (Cell(b"d:n", 5, PUT, b"many"), Cell(b"d:note", 5, PUT, b"t"), Cell(b"d:", 5, DELETE_ROW))),
        Mutation(key(2), (Cell(b"d:n", 5, PUT, b"2"), Cell(b"d:price", 6, PUT, b"1.234"))),
    )
    assert rows == [
        row(1, 10, 5, UNDECODABLE, 0b110, note="t"),
        row(1, 10, 5, DELETE_ROW, 0),
        row(2, 11, 5, PUT, 0b100, n=2),
        row(2, 11, 6, UNDECODABLE, 0b001),
    ]
    assert [letter[:-1] for letter in letters] == [
        ("orders", key(1), "n", 10, 5, b"many"),
        ("orders", key(2), "price", 11, 6, b"1.234"),
    ]
    assert "'many' is not a value of INTEGER" in letters[0].reason


def test_of_two_puts_of_one_cell_the_later_wins():
    rows, letters = decoded(
        Mutation(key(1), (Cell(b"d:n", 5, PUT, b"many"), Cell(b"d:n", 5, PUT, b"2"))),
        Mutation(key(2), (Cell(b"d:n", 5, PUT, b"2"), Cell(b"d:n", 5, PUT, b"many"))),
    )
    assert rows == [row(1, 10, 5, PUT, 0b100, n=2), row(2, 11, 5, UNDECODABLE, 0b100)]
    assert [letter.row for letter in letters] == [key(2)]


def test_an_undecodable_key_is_a_dead_letter_only():
    rows, letters = decoded(
        Mutation(b"short", (Cell(b"d:n", 5, PUT, b"many"), Cell(b"d:n", 7, DELETE_COLUMN))),
        Mutation(key(2), (Cell(b"d:n", 5, PUT, b"2"),)),
    )
    assert rows == [row(2, 11, 5, PUT, 0b100, n=2)]
    assert [letter[:-1] for letter in letters] == [("orders", b"short", "", 10, 7, b"")]
    assert "takes 8 bytes, 5 are there" in letters[0].reason


def test_nothing_gives_an_empty_batch_of_the_schema():
    batch, letters = RowDecoder(TABLE).decode([])
    assert (batch.num_rows, letters) == (0, [])
    assert batch.schema.names == ["id", "line", "price", "note", "n", "_seq", "_ts", "_kind", "_present"]
    assert batch.schema.field("_present").type == pa.uint64()


def test_rows_read_from_the_store():
    batch, letters = read_rows(
        TABLE,
        [
            (key(1), {b"d:n": Version(b"1", 5), b"d:_0": Version(b"", 9), b"d:other": Version(b"", 99)}),
            (key(2), {b"d:other": Version(b"", 5)}),
            (key(3), {b"d:n": Version(b"many", 5), b"d:note": Version(b"t", 8)}),
            (b"short", {b"d:n": Version(b"1", 5)}),
        ],
    )
    assert batch.to_pylist() == [
        row(1, 0, 9, PUT, MARKER | 0b100, n=1),
        row(3, 0, 8, UNDECODABLE, 0b110, note="t"),
    ]
    assert [letter[:-1] for letter in letters] == [
        ("orders", key(3), "n", 0, 5, b"many"),
        ("orders", b"short", "", 0, 5, b""),
    ]


ROWS = pa.table({"line": [1, 2], "id": [7, 8], "price": [1.5, None], "n": [3, 4]})


@pytest.mark.parametrize("encoding", list(Encoding))
def test_whole_rows_read_back(encoding):
    table = BaseTable("orders", TABLE.columns, TABLE.key, encoding=encoding, family="f")
    rows, letters = decoded(*RowEncoder(table).puts(ROWS, np.array([20, 30])), table=table)
    assert letters == []
    assert rows == [
        row(7, 10, 19, DELETE_ROW, 0),
        row(7, 10, 20, PUT, MARKER | 0b101, price=Decimal("1.50"), n=3),
        row(8, 11, 29, DELETE_ROW, 0, line=2),
        row(8, 11, 30, PUT, MARKER | 0b100, line=2, n=4),
    ]


def test_the_cells_of_a_whole_row():
    assert RowEncoder(TABLE).puts(ROWS[:1], 20) == [
        Mutation(
            key(7),
            (
                Cell(b"d:", 19, DELETE_ROW),
                Cell(b"d:_0", 20),
                Cell(b"d:price", 20, PUT, b"1.50"),
                Cell(b"d:n", 20, PUT, b"3"),
            ),
        )
    ]
    assert all(isinstance(cell, Cell) for m in RowEncoder(TABLE).puts(ROWS, 20) for cell in m.cells)


def test_some_columns_of_a_row():
    update = ROWS.select(["id", "line", "price"])
    assert RowEncoder(TABLE).puts(update, 20, whole=False) == [
        Mutation(key(7), (Cell(b"d:_0", 20), Cell(b"d:price", 20, PUT, b"1.50"))),
        Mutation(key(8, 2), (Cell(b"d:_0", 20), Cell(b"d:price", 20, DELETE_COLUMN))),
    ]
    keys_only = ROWS.select(["id", "line"])[:1]
    assert RowEncoder(TABLE).puts(keys_only, 20, whole=False) == [Mutation(key(7), (Cell(b"d:_0", 20),))]


def test_deletes():
    keys = ROWS.select(["id", "line"])
    assert RowEncoder(TABLE).deletes(keys, np.array([20, 21])) == [
        Mutation(key(7), (Cell(b"d:", 20, DELETE_ROW),)),
        Mutation(key(8, 2), (Cell(b"d:", 21, DELETE_ROW),)),
    ]
    with pytest.raises(InvalidValue, match=r"a delete takes the key columns alone \(id, line\), not price, n"):
        RowEncoder(TABLE).deletes(ROWS, 20)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (
            {"id": [1], "line": [1], "n": [1], "prise": [1]},
            UnknownName,
            "orders.prise; did you mean orders.price",
        ),
        ({"id": [1], "n": [1]}, InvalidValue, "column line is part of the key and has no value"),
        (
            {"id": [1, None], "line": [1, 1], "n": [1, 1]},
            InvalidValue,
            "id is part of the key but is NULL in row 1",
        ),
        ({"id": [1], "line": [1]}, InvalidValue, "column n is NOT NULL and has no value"),
        ({"id": [1, 2], "line": [1, 1], "n": [1, None]}, InvalidValue, "n is NOT NULL but is NULL in row 1"),
        (
            {"id": [1, 2], "line": [1, 1], "n": [1, 2**40]},
            InvalidValue,
            "table orders: column n, row 1: 1099511627776 does not fit INTEGER",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(rows, error, message):
    with pytest.raises(error, match=message):
        RowEncoder(TABLE).puts(pa.table(rows), 20)


def test_a_column_given_twice_is_refused():
    rows = pa.Table.from_arrays([pa.array([1])] * 4, names=["id", "line", "n", "n"])
    with pytest.raises(InvalidValue, match="column n is given twice"):
        RowEncoder(TABLE).puts(rows, 20)
