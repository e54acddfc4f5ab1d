"""The oracles answer as views must, and the comparison finds every difference."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle, Oracle

ITEMS = pa.table(
    {
        "k": pa.array([1, 2, 3, 4], pa.int64()),
        "price": pa.array([Decimal("1.10"), Decimal("2.20"), None, Decimal("3.30")], pa.decimal128(15, 2)),
        "tag": pa.array(["a", "b", "a", None]),
    }
)
SQL = "SELECT tag, sum(price * 0.5) AS half, count(*) AS n FROM items WHERE k < 4 OR tag IS NULL GROUP BY tag"


@pytest.fixture(params=[DataFusionOracle, DuckOracle])
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return request.param()


def test_both_oracles_agree(oracle: Oracle) -> None:
    expected = pa.table(
        {
            "tag": ["a", "b", None],
            "half": pa.array([Decimal("0.550"), Decimal("1.100"), Decimal("1.650")], pa.decimal128(28, 3)),
            "n": pa.array([2, 1, 1], pa.int64()),
        }
    )
    assert_same_rows(expected, oracle.evaluate(SQL, {"items": ITEMS}))


def test_tables_are_those_of_the_call(oracle: Oracle) -> None:
    count = "SELECT count(*) AS n FROM items"
    for rows in (4, 0, 2):
        assert oracle.evaluate(count, {"items": ITEMS.slice(0, rows)}).to_pylist() == [{"n": rows}]
    with pytest.raises(Exception, match="items"):
        oracle.evaluate(count, {})


def test_datafusion_gives_view_types() -> None:
    sql = "SELECT tag, price * 0.5 AS half, CAST('2020-01-01' AS timestamp) AS at FROM items"
    result = DataFusionOracle().evaluate(sql, {"items": ITEMS})
    assert result.schema.types == [pa.string(), pa.decimal128(17, 3), pa.timestamp("us")]


def table(*rows: tuple[object, ...], types: tuple[pa.DataType, ...] = (pa.int64(), pa.float64())) -> pa.Table:
    return pa.table([pa.array([r[i] for r in rows], t) for i, t in enumerate(types)], names=["k", "x"])


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (table((1, 1.0), (2, 2.0)), table((2, 2.0), (1, 1.0))),
        (table((1, 0.1 + 0.2), (1, 5.0)), table((1, 5.0), (1, 0.3))),
        (
            table((1, math.nan), (None, None), (2, math.inf)),
            table((2, math.inf), (1, -math.nan), (None, None)),
        ),
        (table((1, 0.0)), table((1, -0.0))),
        (table((1, 1e300), (2, 1.0)), table((2, 1.0), (1, 1e300 * (1 + 1e-12)))),
        (table(), table()),
    ],
)
def test_equal_multisets(actual: pa.Table, expected: pa.Table) -> None:
    assert_same_rows(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (table((1, 1.0)), table((1, 1.0), (1, 1.0)), r"- 1 x \(1, 1.0\)"),
        (table((1, 1.0), (1, 1.0)), table((1, 1.0)), r"\+ 1 x \(1, 1.0\)"),
        (table((1, 1.0)), table((1, 1.0 + 1e-8)), "1 rows too many and 1 rows missing"),
        (table((1, 1.0)), table((2, 1.0)), r"\+ 1 x \(1, 1.0\)\n- 1 x \(2, 1.0\)"),
        (table((1, None)), table((1, math.nan)), "1 rows too many"),
        (table((1, 0.0)), table((1, 1e-300)), "1 rows too many"),
        (table(), table((None, None)), r"- 1 x \(None, None\)"),
    ],
)
def test_differences_are_named(actual: pa.Table, expected: pa.Table, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_same_rows(actual, expected, "view v at epoch 7")
    with pytest.raises(AssertionError, match=r"^view v at epoch 7: "):
        assert_same_rows(actual, expected, "view v at epoch 7")


def test_rows_close_in_several_columns_find_their_partner() -> None:
    """Sorted by the first column, where they differ by less than the tolerance, they would pair crosswise."""
    tiny = 1 + 1e-13
    actual = pa.table({"x": [1.0, tiny], "y": [5.0, 7.0]})
    expected = pa.table({"x": [tiny, 1.0], "y": [5.0, 7.0]})
    assert_same_rows(actual, expected)


def test_the_message_stays_short() -> None:
    with pytest.raises(AssertionError, match="and 90 more") as failure:
        assert_same_rows(table(*((i, 0.0) for i in range(100))), table())
    assert len(str(failure.value).splitlines()) == 13


def test_expected_is_cast_to_the_types_of_the_view() -> None:
    price = pa.array([Decimal("2.35")], pa.decimal128(10, 2))
    assert_same_rows(pa.table({"x": price}), pa.table({"x": pa.array([Decimal("2.345")], pa.decimal128(10, 3))}))
    assert_same_rows(pa.table({"x": pa.array([3], pa.int32())}), pa.table({"x": pa.array([3], pa.int64())}))
    with pytest.raises(AssertionError, match="column x"):
        assert_same_rows(pa.table({"x": pa.array([3], pa.int32())}), pa.table({"x": pa.array([1 << 40])}))


def test_column_names_must_agree() -> None:
    with pytest.raises(AssertionError, match="columns"):
        assert_same_rows(pa.table({"a": [1]}), pa.table({"b": [1]}))
