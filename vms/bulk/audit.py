"""An audit: Spark SQL, which shares nothing with the operations, evaluates a view's own text over a snapshot.

Writers wait for one epoch, until every view covers what they wrote. The copy of the store that is made then holds
the base tables and, as of the committed epoch, the view: the same cut on both sides. Both are compared as multisets
by Spark, however large they are; what differs comes back.
"""

from __future__ import annotations

import math
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema
from sqlglot import exp

from vms.bulk.readers import EmbeddedReader, KeyRange
from vms.errors import UserError, ViewHasErrors
from vms.manager.database import Database
from vms.model.changes import UNDECODABLE
from vms.model.table import BaseTable
from vms.store.embedded import EmbeddedStore
from vms.viewtable.layout import ViewLayout

#: Sums of DOUBLE may be taken in any order.
RELATIVE_TOLERANCE = 1e-9

Row = tuple[Any, ...]
_Read = Callable[[KeyRange], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Difference:
    """One row that is not as it should be. `key` has the columns of the view's row key; None: there is no such row."""

    key: Mapping[str, Any]
    expected: Mapping[str, Any] | None
    found: Mapping[str, Any] | None


@dataclass(frozen=True)
class Audit:
    """The view `name` as of `epoch`: how many rows it has, and what differs."""

    name: str
    epoch: int
    rows: int
    differences: tuple[Difference, ...]


def audit(db: Database, name: str, spark: SparkSession, *, range_rows: int = 500_000) -> Audit:
    """Compare the view with its SQL. Where nothing differs, the catalog says so: `verified` through the epoch."""
    if not isinstance(db.store, EmbeddedStore):
        raise UserError(f"{db.address} is no embedded store: audits read a copy of one")
    definition, plan = db.catalog.view(name), db.plan(name)
    failing, text = db.runtime.readable.errors.get(name, (0, None))
    if failing:
        raise ViewHasErrors(f"view {name} has rows that fail: {text}; mend or delete the base rows first")
    folder = db.store.path.parent.resolve() / "audit" / uuid.uuid4().hex
    try:
        with db.writes.closed():
            db.wait(db.latest())
            point = db.runtime.readable.point
            db.store.checkpoint(folder)
        reader = EmbeddedReader(str(folder), 0, range_rows)
        layout = ViewLayout(plan.plan.outputs[name], definition.form)
        table = definition.table(point.generation)
        found = _frame(spark, reader.cut_up(table), _ViewRows(reader, layout, table, point.epoch), layout.schema)
        expected = _evaluated(db, spark, reader, name, layout.schema)
        key = [layout.schema.names[k] for k in plan.plan.outputs[name].spec.key if k < len(layout.schema)]  # type: ignore[union-attr]
        differences = _compare(expected, found, key, layout.schema, _inexact(definition.sql, layout.schema))
        rows = found.count()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not differences:
        before = db.catalog
        db.change_catalog(before, before.with_verified(name, point.epoch))
    return Audit(name, point.epoch, rows, differences)


def _evaluated(db: Database, spark: SparkSession, reader: EmbeddedReader, name: str, schema: pa.Schema) -> DataFrame:
    """What Spark makes of the view's text. Names of tables and views are those of this session alone."""
    plan = db.plan(name)
    try:
        for table in plan.tables:
            declared = db.catalog.tables[table]
            columns = pa.schema([(c.name, c.type.arrow) for c in declared.visible_columns])
            rows = _frame(spark, reader.ranges(declared), _TableRows(reader, declared, columns), columns)
            rows.createOrReplaceTempView(table)
        for view in plan.views:
            inner = ViewLayout(db.plan(view).plan.outputs[view]).schema
            _evaluated(db, spark, reader, view, inner).createOrReplaceTempView(view)
        text = sqlglot.transpile(db.catalog.view(name).sql, read="postgres", write="spark")[0]
        result = spark.sql(text)
        types = from_arrow_schema(schema)
        return result.select(
            *(f.col(f"`{c}`").cast(t.dataType).alias(t.name) for c, t in zip(_unique(result.columns), types))
        )
    except (PySparkException, sqlglot.errors.SqlglotError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(f"Spark does not understand the SQL of view {name}: {first}") from error


def _unique(names: Sequence[str]) -> Sequence[str]:
    if len(set(names)) < len(names):
        raise UserError(f"columns {', '.join(names)}: two have one name; give them others to audit the view")
    return names


def _frame(spark: SparkSession, ranges: Sequence[KeyRange], read: _Read, schema: pa.Schema) -> DataFrame:
    """The rows of all ranges, one task for each."""
    rows = [(i, r.table, bytearray(r.start), bytearray(r.stop)) for i, r in enumerate(ranges)]
    todo = spark.createDataFrame(rows, "place int, name string, start binary, stop binary")
    return todo.repartitionById(len(rows), "place").mapInArrow(_Reading(read), from_arrow_schema(schema))


@dataclass(frozen=True)
class _Reading:
    read: _Read

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for todo in batch.to_pylist():
                yield from self.read(KeyRange(todo["name"], todo["start"], todo["stop"]))


@dataclass(frozen=True)
class _TableRows:
    """Rows of a base table that can be read; the others are in no view."""

    reader: EmbeddedReader
    table: BaseTable
    schema: pa.Schema

    def __call__(self, wanted: KeyRange) -> Iterator[pa.RecordBatch]:
        for rows, _ in self.reader.read(self.table, wanted):
            good = rows.column("_kind").to_numpy(zero_copy_only=False) != UNDECODABLE
            yield rows.filter(pa.array(good)).select(self.schema.names)


@dataclass(frozen=True)
class _ViewRows:
    """Rows of the view as of the epoch."""

    reader: EmbeddedReader
    layout: ViewLayout
    table: str
    epoch: int

    def __call__(self, wanted: KeyRange) -> Iterator[pa.RecordBatch]:
        rows = self.reader.store().scan(self.table, wanted.start, wanted.stop, before=self.epoch + 1)
        yield from self.layout.table(rows).to_batches()


def _inexact(sql: str, schema: pa.Schema) -> set[int]:
    """The columns that may differ in their last digit: DOUBLE, and quotients of decimals, which Spark rounds and
    DataFusion cuts. Where there is such a quotient below the outermost SELECT, every decimal may come from it."""
    tree = sqlglot.parse_one(sql, read="postgres")
    floats = {i for i, t in enumerate(schema.types) if pa.types.is_floating(t)}
    decimals = {i for i, t in enumerate(schema.types) if pa.types.is_decimal(t)}
    quotients = list(tree.find_all(exp.Avg, exp.Div))
    shown = dict(enumerate(tree.selects)) if isinstance(tree, exp.Select) else {}
    own = {i for i, column in shown.items() if any(column.find_all(exp.Avg, exp.Div))}
    above = sum(len(list(shown[i].find_all(exp.Avg, exp.Div))) for i in own)
    return floats | (decimals if above < len(quotients) or tree.find(exp.Star) else decimals & own)


def _compare(
    expected: DataFrame, found: DataFrame, key: Sequence[str], schema: pa.Schema, inexact: set[int]
) -> tuple[Difference, ...]:
    """Rows that one side has more often than the other, those of one key together."""
    expected, found = expected.persist(), found.persist()
    lacking = [tuple(r) for r in expected.exceptAll(found).collect()]
    surplus = [tuple(r) for r in found.exceptAll(expected).collect()]
    if inexact:
        lacking, surplus = _without_close(lacking, surplus, inexact)
    places = [schema.names.index(k) for k in key]
    by_key: dict[Row, list[Row]] = {}
    for row in surplus:
        by_key.setdefault(tuple(row[p] for p in places), []).append(row)
    differences = []
    for row in lacking:
        others = by_key.get(tuple(row[p] for p in places))
        differences.append(_difference(row, others.pop() if others else None, key, schema))
    differences += [_difference(None, row, key, schema) for rows in by_key.values() for row in rows]
    return tuple(sorted(differences, key=lambda d: str(list(d.key.values()))))


def _difference(expected: Row | None, found: Row | None, key: Sequence[str], schema: pa.Schema) -> Difference:
    rows = [None if row is None else dict(zip(schema.names, row)) for row in (expected, found)]
    there = rows[0] if rows[0] is not None else rows[1]
    assert there is not None
    return Difference({k: there[k] for k in key}, rows[0], rows[1])


def _without_close(lacking: list[Row], surplus: list[Row], inexact: set[int]) -> tuple[list[Row], list[Row]]:
    """Without pairs that differ in nothing but the last digits of these columns."""
    left: dict[Row, list[Row]] = {}
    for row in surplus:
        left.setdefault(tuple(v for i, v in enumerate(row) if i not in inexact), []).append(row)
    kept = []
    for row in lacking:
        others = left.get(tuple(v for i, v in enumerate(row) if i not in inexact), [])
        near = next((o for o in others if all(_close(row[i], o[i]) for i in inexact)), None)
        if near is None:
            kept.append(row)
        else:
            others.remove(near)
    return kept, [row for rows in left.values() for row in rows]


def _close(one: float | Decimal | None, other: float | Decimal | None) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return abs(one - other) <= max(Decimal(1).scaleb(-digits) for digits in (_digits(one), _digits(other)))
    return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE) or (math.isnan(one) and math.isnan(other))


def _digits(value: Decimal) -> int:
    """After the point."""
    exponent = value.as_tuple().exponent
    return -exponent if isinstance(exponent, int) else 0
