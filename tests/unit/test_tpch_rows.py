"""The rows that TPC-H views are tested with, and what they are compared with."""

from __future__ import annotations

import pytest

from bench.tpch import dense, queries
from bench.tpch.expected import expected, without_ties
from bench.tpch.schema import TABLES, arrow_schema
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle


@pytest.mark.parametrize("query", queries.names())
def test_what_is_expected_is_datafusion_s_answer_too_and_there_is_some(query: str) -> None:
    rows = dense.rows(5)
    wanted = expected(query, rows)
    assert any(len(column) > column.null_count for column in wanted.columns)
    assert_same_rows(DataFusionOracle().evaluate(without_ties(queries.text(query)), rows), wanted)


def test_dense_rows_are_a_function_of_their_seed_with_keys_that_appear_once() -> None:
    sizes = dense.sizes_for(["customer", "orders"], 1000)
    rows = dense.rows(7, sizes)
    assert abs(rows["customer"].num_rows + rows["orders"].num_rows - 1000) <= 1
    for name, table in rows.items():
        assert table.schema.equals(arrow_schema(TABLES[name])) and table.num_rows == sizes[name]
        keys = table.select(list(TABLES[name].key))
        assert keys.group_by(keys.column_names).aggregate([]).num_rows == table.num_rows
    assert rows == dense.rows(7, sizes) != dense.rows(8, sizes)
