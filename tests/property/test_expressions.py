"""Expressions against DataFusion: the same SQL over the same rows, each row alone where one of them fails."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from expression_values import DECIMALS, TYPES, Answer, arrow_array, evaluated, row_by_row, values
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.errors import UnsupportedSql
from vms.maintenance.expressions import Evaluator
from vms.maintenance.operations.projection import ProjectionOperation
from vms.maintenance.operations.selection import SelectionOperation
from vms.model.arrow import from_column, to_column
from vms.model.changes import Changes, Column
from vms.model.text import TextPool
from vms.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Kind,
    SqlType,
    decimal,
)
from vms.plan.expr import Call, Case, Cast, Expr, InList, Literal, Ref
from vms.plan.functions import result_type
from vms.plan.plan import Field, Projection, Selection, make_node
from vms.testing.oracle import DataFusionOracle

ORACLE = DataFusionOracle()
PATTERNS = [
    "",
    "%",
    "_",
    "a%",
    "%b",
    "a_b",
    "a\\%b",
    "a\\_b",
    "\\\\",
    "a\\",
    "%ä%",
    "__",
    "a.b",
    "k",
    "s",
    "(",
    "[%",
]
several = settings(deadline=None, max_examples=120)


def sql_type(t: SqlType) -> str:
    if t.kind is Kind.DECIMAL:
        return f"DECIMAL({t.precision}, {t.scale})"
    return {Kind.TIMESTAMP: "TIMESTAMP(6)"}.get(t.kind, t.kind.value)


INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "equal": "=", "not_equal": "<>", "lt": "<", "lte": "<=",
    "gt": ">", "gte": ">=", "and": "AND", "or": "OR", "like": "LIKE", "ilike": "ILIKE",
    "is_distinct_from": "IS DISTINCT FROM", "is_not_distinct_from": "IS NOT DISTINCT FROM",
}  # fmt: skip


@dataclass
class Rows:
    """Columns c0, c1, ... for the Refs and Literals that an expression uses.

    Literals other than text are columns for DataFusion: it folds constants, and the error of a folded constant
    is one of the whole statement.
    """

    types: list[SqlType]
    codes: list[list[Any]]
    count: int

    def constant(self, literal: Literal) -> str:
        if literal.type.kind is Kind.VARCHAR and literal.value is not None:
            return "'" + str(literal.value).replace("'", "''") + "'"
        key = f"k{len(self.types)}"
        self.types.append(literal.type)
        self.codes.append([literal.value] * self.count)
        return key

    def sql(self, e: Expr) -> str:
        match e:
            case Ref():
                return f"c{e.index}"
            case Literal():
                return self.constant(e)
            case Cast():
                return f"{'TRY_' if e.safe else ''}CAST({self.sql(e.arg)} AS {sql_type(e.type)})"
            case Case():
                branches = " ".join(f"WHEN {self.sql(w)} THEN {self.sql(t)}" for w, t in e.branches)
                end = "" if e.otherwise is None else f" ELSE {self.sql(e.otherwise)}"
                return f"(CASE {branches}{end} END)"
            case InList():
                return f"({self.sql(e.arg)} IN ({', '.join(map(self.sql, e.options))}))"
        args = [self.sql(a) for a in e.args]
        match e.function:
            case "not":
                return f"(NOT {args[0]})"
            case "negate":
                return f"(- {args[0]})"
            case "is_null" | "is_not_null":
                return f"({args[0]} {e.function.upper().replace('_', ' ')})"
            case "coalesce":
                return f"coalesce({', '.join(args)})"
        return "(" + f" {INFIX[e.function]} ".join(args) + ")"

    def table(self) -> pa.Table:
        arrays = [arrow_array(t, c) for t, c in zip(self.types, self.codes)]
        names = [("c" if i < self.width else "k") + str(i) for i in range(len(arrays))]
        return pa.table([*arrays, pa.array(range(self.count))], names=[*names, "row"])

    def __post_init__(self) -> None:
        self.width = len(self.types)

    def changes(self, pool: TextPool) -> Changes:
        columns = zip(self.types[: self.width], self.codes)
        return Changes(tuple(to_column(t, arrow_array(t, c), pool) for t, c in columns), np.ones(self.count, np.int64))


def expected(rows: Rows, e: Expr) -> list[Answer]:
    """DataFusion's answers."""
    sql = f"SELECT {rows.sql(e)} AS x, row FROM t ORDER BY row"

    def ask(part: pa.Table) -> pa.ChunkedArray:
        answer = ORACLE.evaluate(sql, {"t": part}).column("x")
        assert answer.type == e.type.arrow
        return answer

    return row_by_row(ask, rows.table())


def check(rows: Rows, e: Expr) -> None:
    """The evaluator gives DataFusion's values and fails exactly where DataFusion does."""
    pool = TextPool()
    ours, result = evaluated(e, rows.changes(pool), pool)
    for i, (our, their) in enumerate(zip(ours, expected(rows, e))):
        if our[0] and isinstance(their[1], Decimal) and len(their[1].as_tuple().digits) > 38:
            continue  # a value that is outside of its own type: ours is a failure
        assert our == their, f"row {i} of {rows.codes}: {rows.sql(e)}"
        if our[0]:
            assert "has no result for" in result.describe(i)


def columns(draw: st.DrawFn, types: list[SqlType], most: int = 8) -> Rows:
    count = draw(st.integers(1, most))
    nullable = draw(st.booleans())
    codes = [[draw(st.none() | values(t) if nullable else values(t)) for _ in range(count)] for t in types]
    return Rows(list(types), codes, count)


def operand(draw: st.DrawFn, index: int, type_: SqlType) -> Expr:
    """A column, or now and then a constant."""
    if draw(st.integers(0, 3)):
        return Ref(index, type_)
    return Literal(draw(values(type_)), type_)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@given(data=st.data())
@several
def test_arithmetic(name: str, data: st.DataObject) -> None:
    draw = data.draw
    a = draw(st.sampled_from([INTEGER, BIGINT, DOUBLE, *DECIMALS, *DECIMALS]))
    b = draw(st.sampled_from(DECIMALS)) if a.kind is Kind.DECIMAL else a
    type_ = result_type(name, [a, b])
    if type_ is None:
        return
    rows = columns(draw, [a, b])
    check(rows, Call(name, (operand(draw, 0, a), operand(draw, 1, b)), type_))


@given(data=st.data())
@several
def test_negate(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from([INTEGER, BIGINT, DOUBLE, *DECIMALS]))
    check(columns(data.draw, [type_]), Call("negate", (Ref(0, type_),), type_))


@given(data=st.data())
@several
def test_comparisons(data: st.DataObject) -> None:
    draw = data.draw
    type_ = draw(st.sampled_from(TYPES))
    ops = ["equal", "not_equal", "lt", "lte", "gt", "gte", "is_distinct_from", "is_not_distinct_from"]
    rows = columns(draw, [type_, type_])
    if draw(st.booleans()):
        rows.codes[1] = draw(st.permutations(rows.codes[0]))
    check(rows, Call(draw(st.sampled_from(ops)), (operand(draw, 0, type_), operand(draw, 1, type_)), BOOLEAN))


@given(data=st.data())
@several
def test_in_list(data: st.DataObject) -> None:
    draw = data.draw
    type_ = draw(st.sampled_from(TYPES))
    rows = columns(draw, [type_, type_])
    options = [Literal(c, type_) for c in draw(st.lists(st.none() | st.sampled_from(rows.codes[0]), max_size=3))]
    if draw(st.booleans()) or not options:
        options.append(Ref(1, type_))
    check(rows, InList(Ref(0, type_), tuple(options), BOOLEAN))


@given(data=st.data(), name=st.sampled_from(["like", "ilike"]))
@several
def test_like(name: str, data: st.DataObject) -> None:
    rows = columns(data.draw, [VARCHAR, VARCHAR])
    patterns = st.sampled_from(PATTERNS) | st.text(alphabet="ab%_\\ä", max_size=5)
    rows.codes[1] = [data.draw(st.none() | patterns) for _ in range(rows.count)]
    pattern = Literal(data.draw(patterns), VARCHAR) if data.draw(st.booleans()) else Ref(1, VARCHAR)
    check(rows, Call(name, (Ref(0, VARCHAR), pattern), BOOLEAN))


@given(data=st.data())
@several
def test_logic(data: st.DataObject) -> None:
    """Nested AND, OR, NOT, IS NULL, CASE and COALESCE over booleans."""
    draw = data.draw
    rows = columns(draw, [BOOLEAN, BOOLEAN, BOOLEAN])

    def tree(depth: int) -> Expr:
        choice = draw(st.integers(0, 6)) if depth else 0
        match choice:
            case 0:
                return Ref(draw(st.integers(0, 2)), BOOLEAN)
            case 1 | 2:
                args = tuple(tree(depth - 1) for _ in range(draw(st.integers(2, 3))))
                return Call("and" if choice == 1 else "or", args, BOOLEAN)
            case 3:
                return Call("not", (tree(depth - 1),), BOOLEAN)
            case 4:
                return Call(draw(st.sampled_from(["is_null", "is_not_null"])), (tree(depth - 1),), BOOLEAN)
            case 5:
                return Call("coalesce", (tree(depth - 1), tree(depth - 1)), BOOLEAN)
        otherwise = tree(depth - 1) if draw(st.booleans()) else None
        return Case(((tree(depth - 1), tree(depth - 1)),), otherwise, BOOLEAN)

    check(rows, tree(3))


@given(data=st.data())
@several
def test_case_and_coalesce_of_every_type(data: st.DataObject) -> None:
    draw = data.draw
    type_ = draw(st.sampled_from(TYPES))
    rows = columns(draw, [type_, type_, BOOLEAN, BOOLEAN])
    a, b = operand(draw, 0, type_), operand(draw, 1, type_)
    check(rows, Call("coalesce", (a, b), type_))
    branches = ((Ref(2, BOOLEAN), a), (Ref(3, BOOLEAN), b))
    check(rows, Case(branches, draw(st.sampled_from([None, a])), type_))


NUMBERS = (INTEGER, BIGINT, DOUBLE, *DECIMALS)
CASTS = [
    *((a, b) for a in NUMBERS for b in NUMBERS if a != b),
    *((t, VARCHAR) for t in TYPES if t is not VARCHAR),
    (INTEGER, BOOLEAN), (DOUBLE, BOOLEAN), (BOOLEAN, INTEGER), (BOOLEAN, DOUBLE), (INTEGER, DATE),
    (DATE, BIGINT), (DATE, TIMESTAMP), (TIMESTAMP, DATE), (TIMESTAMP, BIGINT),
]  # fmt: skip


@given(data=st.data(), pair=st.sampled_from(CASTS), safe=st.booleans())
@settings(deadline=None, max_examples=250)
def test_casts(data: st.DataObject, pair: tuple[SqlType, SqlType], safe: bool) -> None:
    rows = columns(data.draw, [pair[0]])
    if pair == (INTEGER, DATE):
        rows.codes[0] = [None if c is None else c % 100_000 for c in rows.codes[0]]
    check(rows, Cast(Ref(0, pair[0]), pair[1], safe))


WRITTEN = {
    BOOLEAN: ["true", "T", "yes", "of", "0", "2", "", " on ", "tRuE", "truee"],
    INTEGER: ["5", " 5", "+5", "-0", "005", "5.0", "", "2147483648", "-2147483648", "1e3", "٣", "--1"],
    decimal(6, 2): ["1.255", "-1.245", " 1", "+1", "1e2", "", ".5", "5.", "-.5", "12345", "1.2.3", ".",
                    "9999.995"],
    DOUBLE: ["1.5", " 1", "nan", "inf", "-Infinity", "1e400", "", ".5", "5.", "0x10", "1_0", "+1", "e5",
             "1e-400"],
    DATE: ["2020-01-02", "2020-1-2", "20200102", "2020-02-30", "2020-01-02 03:04:05", "", "2020/01/02",
           "1969-12-31"],
    TIMESTAMP: ["2020-01-02", "2020-01-02 03:04:05", "2020-01-02T03:04:05.123456", "2020-01-02T03:04:05Z",
                "2020-01-02 03:04:05+01:00", "", "2020-01-02 03:04:05-00:30", "1969-12-31 23:59:59.999999",
                "2020-13-02", "2020-01-02 24:00:00"],
}  # fmt: skip


@pytest.mark.parametrize("type_", WRITTEN, ids=str)
@pytest.mark.parametrize("safe", [False, True])
def test_text_is_parsed_as_datafusion_does(type_: SqlType, safe: bool) -> None:
    texts = [*WRITTEN[type_], None]
    check(Rows([VARCHAR], [texts], len(texts)), Cast(Ref(0, VARCHAR), type_, safe))


def test_failures_of_branches_that_are_not_taken_do_not_count() -> None:
    rows = Rows([VARCHAR, BOOLEAN], [["1", "x", "x"], [True, True, False]], 3)
    number = Cast(Ref(0, VARCHAR), INTEGER)
    pool = TextPool()
    guarded = Case(((Ref(1, BOOLEAN), number),), Literal(0, INTEGER), INTEGER)
    either = Call("or", (Call("not", (Ref(1, BOOLEAN),), BOOLEAN), Call("is_null", (number,), BOOLEAN)), BOOLEAN)
    for e in (guarded, either):
        failed = Evaluator([e], pool).evaluate(rows.changes(pool)).failed
        assert failed is not None
        assert failed.tolist() == [False, True, False]


def test_equal_parts_are_evaluated_once_and_refs_are_passed_on() -> None:
    pool = TextPool()
    rows = Rows([BIGINT], [[1, 2]], 2)
    double = Call("add", (Ref(0, BIGINT), Ref(0, BIGINT)), BIGINT)
    evaluator = Evaluator([double, Call("negate", (double,), BIGINT), Ref(0, BIGINT)], pool)
    assert len(evaluator._steps) == 3
    changes = rows.changes(pool)
    assert evaluator.evaluate(changes).columns[2] is changes.columns[0]


def test_literal_text_survives_a_sweep_between_batches() -> None:
    pool = TextPool()
    is_b = Evaluator([Call("equal", (Ref(0, VARCHAR), Literal("b", VARCHAR)), BOOLEAN)], pool)
    for texts in (["b", "a"], ["c", "d"], ["d", "b"]):
        column = Column(*pool.intern(pa.array(texts)))
        found = is_b.evaluate(Changes((column,), np.ones(2, np.int64))).columns[0].codes
        assert found.tolist() == [int(t == "b") for t in texts]
        pool.sweep([])


def test_empty_batches_and_constants() -> None:
    pool = TextPool()
    exprs: list[Expr] = [
        Literal(None, VARCHAR), Literal("x", VARCHAR), Literal(10**30, decimal(38, 0)),
        Literal(True, BOOLEAN),
        Call("lt", (Ref(0, VARCHAR), Literal("m", VARCHAR)), BOOLEAN), Cast(Ref(0, VARCHAR), INTEGER),
        Call("like", (Ref(0, VARCHAR), Literal("m%", VARCHAR)), BOOLEAN),
        Cast(Literal("7", VARCHAR), INTEGER),
    ]  # fmt: skip
    for texts in ([], ["a"], ["a", None, "n"]):
        column = Column(*pool.intern(pa.array(texts, pa.string())))
        result = Evaluator(exprs, pool).evaluate(Changes((column,), np.ones(len(texts), np.int64)))
        assert [len(c) for c in result.columns] == [len(texts)] * len(exprs)
        assert from_column(decimal(38, 0), result.columns[2], pool).to_pylist() == [Decimal(10**30)] * len(texts)


@pytest.mark.parametrize(
    "e",
    [
        Call("nonsense", (Ref(0, BIGINT),), BIGINT),
        Call("equal", (Ref(0, BIGINT), Ref(1, VARCHAR)), BOOLEAN),
        Cast(Ref(0, BIGINT), TIMESTAMP),
    ],
)
def test_what_cannot_be_evaluated_is_refused_at_once(e: Expr) -> None:
    with pytest.raises(UnsupportedSql):
        Evaluator([e], TextPool())


def source(*types: SqlType) -> Any:
    return make_node(Projection(()), [], tuple(Field(f"c{i}", t) for i, t in enumerate(types)), None)


def test_failed_rows_are_counted_by_weight_and_heal() -> None:
    """+1 of a bad row counts, its removal heals; the count moves with its slots."""
    pool = TextPool()
    exprs = (Cast(Ref(0, VARCHAR), INTEGER), Ref(0, VARCHAR))
    node = make_node(Projection(exprs), [source(VARCHAR)], (Field("n", INTEGER), Field("t", VARCHAR)), None)
    operation = ProjectionOperation(node, [VARCHAR], pool)

    def batch(*rows: tuple[str, int]) -> Changes:
        codes, valid = pool.intern(pa.array([t for t, _ in rows]))
        return Changes((Column(codes, valid),), np.array([w for _, w in rows], np.int64))

    out = operation.step([batch(("1", 1), ("x", 2), ("y", 1))])
    assert (out.columns[0].codes.tolist(), out.weights.tolist()) == ([1], [1])
    assert operation.error_count == 3
    assert operation.last_error == "CAST(column 1 AS INTEGER) has no result for 'x'"

    other, everything = ProjectionOperation(node, [VARCHAR], pool), np.ones(1024, np.bool_)
    other.load(operation.export(everything))
    operation.drop(everything)
    assert (operation.error_count, operation.last_error, operation.export(everything)) == (0, None, [])
    assert (other.error_count, other.last_error) == (3, "CAST(column 1 AS INTEGER) has no result for 'x'")

    other.step([batch(("x", -2))])
    assert (other.error_count, other.last_error) == (1, "CAST(column 1 AS INTEGER) has no result for 'y'")
    other.step([batch(("y", -1))])
    assert (other.error_count, other.last_error) == (0, None)


def test_selection_keeps_true_rows_and_counts_failed_ones() -> None:
    pool = TextPool()
    number = Cast(Ref(0, VARCHAR), INTEGER)
    predicate = Call("and", (Ref(1, BOOLEAN), Call("gt", (number, Literal(5, INTEGER)), BOOLEAN)), BOOLEAN)
    inputs = source(VARCHAR, BOOLEAN)
    operation = SelectionOperation(make_node(Selection(predicate), [inputs], inputs.fields, None), inputs.types, pool)
    rows = Rows([VARCHAR, BOOLEAN], [["6", "5", None, "x", "x", "7"], [True, True, True, True, False, None]], 6)
    out = operation.step([rows.changes(pool)])
    assert from_column(VARCHAR, out.columns[0], pool).to_pylist() == ["6"]
    assert operation.error_count == 1
