"""Runs SQL statements against a `Database`, one after the other.

Each statement is applied as a whole or not at all; a script is not a transaction. INSERT of a key that exists
overwrites the row, as a put does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from vms.errors import SqlError, UnknownName
from vms.manager.parser import (
    CreateTable,
    CreateView,
    Delete,
    Describe,
    DropTable,
    DropView,
    Explain,
    Insert,
    Select,
    Show,
    Statement,
    Update,
    Values,
    parse,
)
from vms.manager.query import run_query
from vms.manager.script import Query
from vms.manager.writes import check_insert, check_update, insert_rows, table_for_writing, update_rows
from vms.model.table import BaseTable, TableColumn
from vms.plan.plan import Field

if TYPE_CHECKING:
    from vms.manager.database import Database


@dataclass(frozen=True)
class StatementResult:
    """What one statement did. `table` is there for the ones that answer (SELECT, SHOW, DESCRIBE, EXPLAIN)."""

    kind: str
    table: pa.Table | None
    message: str


def run(db: Database, text: str) -> Iterator[StatementResult]:
    """The result of each statement, as it is done.

    A SELECT sees, also in the views, everything that was written through `db` before. The text is taken apart
    before anything runs: a script with a statement that is none of ours does nothing. An error while running
    leaves what the statements before it did.
    """
    for statement in parse(text):
        yield _execute(db, statement)


def _execute(db: Database, statement: Statement) -> StatementResult:
    match statement:
        case CreateTable():
            return _create_table(db, statement)
        case CreateView():
            return _create_view(db, statement)
        case DropTable(name=name, if_exists=if_exists):
            if if_exists and name not in db.catalog.tables:
                return _done("DROP TABLE", f"there is no table {name}: nothing to drop")
            db.drop_table(name)
            return _done("DROP TABLE", f"table {name} dropped")
        case DropView(name=name, if_exists=if_exists):
            if if_exists and name not in db.catalog.views and name not in db.catalog.builds:
                return _done("DROP VIEW", f"there is no view {name}: nothing to drop")
            db.drop_view(name)
            return _done("DROP VIEW", f"view {name} dropped")
        case Insert():
            return _insert(db, statement)
        case Update():
            return _update(db, statement)
        case Delete():
            return _delete(db, statement)
        case Show(what=what):
            return _answer("SHOW", _tables(db) if what == "tables" else _views(db))
        case Describe(name=name):
            return _described(db, name)
        case Explain(subject=subject):
            return _answer("EXPLAIN", pa.table({"plan": _explain(db, subject).splitlines()}))
        case Select(query=query):
            return _answer("SELECT", _rows(db, query))


def _rows(db: Database, query: Query) -> pa.Table:
    return run_query(db, query, level="critical")


def _create_table(db: Database, statement: CreateTable) -> StatementResult:
    name = statement.table.name
    if statement.if_not_exists and name in db.catalog.tables:
        return _done("CREATE TABLE", f"table {name} is there already: left as it is")
    note = db.create_table(statement.table)
    return _done("CREATE TABLE", f"table {name} created{note and ' ' + note}")


def _create_view(db: Database, statement: CreateView) -> StatementResult:
    name = statement.name
    if statement.if_not_exists and name in db.catalog.views:
        return _done("CREATE VIEW", f"view {name} is there already: left as it is")
    with statement.query.located():
        plan = db.create_view(name, statement.query.sql, statement.form)
    return _done("CREATE VIEW", "; ".join([f"view {name} created", *plan.notes]))


def _insert(db: Database, statement: Insert) -> StatementResult:
    table = table_for_writing(db.catalog, statement.table)
    columns = check_insert(table, statement.columns)
    source = statement.source
    if isinstance(source, Query):
        rows = insert_rows(table, columns, _rows(db, source))
    else:
        rows = _value_rows(db, table, columns, source, 0, len(source.rows))
    db.put(table.name, rows)
    return _done("INSERT", f"{_count(rows)} written to {table.name}")


def _value_rows(
    db: Database, table: BaseTable, columns: tuple[TableColumn, ...], values: Values, start: int, stop: int
) -> pa.Table:
    """Rows of VALUES, cast to the columns.

    DataFusion gives each column of VALUES one type, and refuses rows that it finds none for, such as a text
    and a DATE. Each alone may well fit our column: so what is refused is tried again in two halves.
    """
    try:
        answer = _rows(db, values.query(start, stop))
    except SqlError:
        if stop - start == 1:
            raise
        middle = (start + stop) // 2
        halves = [_value_rows(db, table, columns, values, *h) for h in ((start, middle), (middle, stop))]
        return pa.concat_tables(halves)
    return insert_rows(table, columns, answer)


def _update(db: Database, statement: Update) -> StatementResult:
    table = table_for_writing(db.catalog, statement.table)
    check_update(table, statement.columns)
    rows = update_rows(table, statement.columns, _rows(db, statement.query(table.key)))
    db.put(table.name, rows, whole=False)
    return _done("UPDATE", f"{_count(rows)} of {table.name} changed")


def _delete(db: Database, statement: Delete) -> StatementResult:
    table = table_for_writing(db.catalog, statement.table)
    keys = _rows(db, statement.query(table.key))
    db.delete(table.name, keys)
    return _done("DELETE", f"{_count(keys)} of {table.name} deleted")


def _tables(db: Database) -> pa.Table:
    tables = [t for _, t in sorted(db.catalog.tables.items())]
    return pa.table(
        {
            "table": pa.array([t.name for t in tables], pa.string()),
            "key": pa.array([None if t.hidden_key else ", ".join(t.key) for t in tables], pa.string()),
            "columns": pa.array([len(t.visible_columns) for t in tables], pa.int32()),
            "read by": pa.array([_names(db.readers(t.name)) for t in tables], pa.string()),
        }
    )


def _views(db: Database) -> pa.Table:
    views = [v for _, v in sorted(db.catalog.views.items())]
    return pa.table(
        {
            "view": pa.array([v.name for v in views], pa.string()),
            "reads": pa.array([_names(_read_by(db, v.name)) for v in views], pa.string()),
            "read by": pa.array([_names(db.readers(v.name)) for v in views], pa.string()),
            "definition": pa.array([v.sql for v in views], pa.string()),
        }
    )


def _read_by(db: Database, view: str) -> list[str]:
    """The tables and views that the view names."""
    plan = db.plan(view)
    return [*plan.tables, *plan.views]


def _names(names: Sequence[str]) -> str | None:
    return ", ".join(names) or None


def _described(db: Database, name: str) -> StatementResult:
    """The columns; beside their number what it reads and who reads it."""
    table = _describe(db, name)
    reads = _names(_read_by(db, name)) if name in db.catalog.views else None
    facts = {"reads": reads, "read by": _names(db.readers(name))}
    return StatementResult("DESCRIBE", table, "; ".join([_count(table), *(f"{k} {v}" for k, v in facts.items() if v)]))


def _describe(db: Database, name: str) -> pa.Table:
    catalog = db.catalog
    columns: Sequence[TableColumn | Field]
    if name in catalog.tables:
        columns = catalog.tables[name].visible_columns
        keys: Sequence[bool | None] = [c.name in catalog.tables[name].key for c in columns]
    elif name in catalog.views:
        columns = db.plan(name).fields
        keys = [None] * len(columns)
    else:
        raise UnknownName("table or view", name, [*catalog.tables, *catalog.views])
    return pa.table(
        {
            "column": pa.array([c.name for c in columns], pa.string()),
            "type": pa.array([str(c.type) for c in columns], pa.string()),
            "nullable": pa.array([c.nullable for c in columns], pa.bool_()),
            "key": pa.array(keys, pa.bool_()),
        }
    )


def _explain(db: Database, subject: str | Query) -> str:
    if isinstance(subject, str):
        return db.explain(subject)
    with subject.located():
        return db.explain(subject.sql)


def _done(kind: str, message: str) -> StatementResult:
    return StatementResult(kind, None, message)


def _answer(kind: str, table: pa.Table) -> StatementResult:
    return StatementResult(kind, table, _count(table))


def _count(table: pa.Table) -> str:
    return f"{table.num_rows} row{'' if table.num_rows == 1 else 's'}"
