"""SQL text to statements. What a SELECT means is DataFusion's business: here it is a piece of text."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from vms.manager.ddl import read_table, read_view_form
from vms.manager.script import Cursor, Piece, Query, quoted, statements
from vms.model.catalog import USUAL_FORM, ViewForm
from vms.model.table import BaseTable


@dataclass(frozen=True)
class CreateTable:
    table: BaseTable
    if_not_exists: bool


@dataclass(frozen=True)
class DropTable:
    name: str
    if_exists: bool


@dataclass(frozen=True)
class CreateView:
    name: str
    query: Query
    if_not_exists: bool
    form: ViewForm = USUAL_FORM


@dataclass(frozen=True)
class DropView:
    name: str
    if_exists: bool


@dataclass(frozen=True)
class Show:
    """`what` is "tables" or "views"."""

    what: str


@dataclass(frozen=True)
class Describe:
    name: str


@dataclass(frozen=True)
class Explain:
    """The name of a view, or the SELECT that might become one."""

    subject: str | Query


@dataclass(frozen=True)
class Values:
    """The rows of VALUES, each a piece of the script."""

    script: str
    rows: tuple[Piece, ...]

    def query(self, start: int, stop: int) -> Query:
        """VALUES of the rows start <= row < stop."""
        return Query(self.script, "VALUES ", Piece(self.rows[start].start, self.rows[stop - 1].stop))


@dataclass(frozen=True)
class Insert:
    """`columns` is None where the text names none: then all of the table, in order of declaration."""

    table: str
    columns: tuple[str, ...] | None
    source: Query | Values


@dataclass(frozen=True)
class Update:
    """`query(keys)` is the SELECT of the key columns `keys`, then of the new value of each of `columns`."""

    table: str
    columns: tuple[str, ...]
    query: Callable[[tuple[str, ...]], Query]


@dataclass(frozen=True)
class Delete:
    """`query(keys)` is the SELECT of the key columns of the rows that go."""

    table: str
    query: Callable[[tuple[str, ...]], Query]


@dataclass(frozen=True)
class Select:
    query: Query


Statement = (
    CreateTable | DropTable | CreateView | DropView | Show | Describe | Explain | Insert | Update | Delete | Select
)


def parse(text: str) -> list[Statement]:
    """All statements of a script, in order.

    Raises SqlError, with the position in the whole script, for the first one that is none of ours.
    """
    return [_statement(at) for at in statements(text)]


def _statement(at: Cursor) -> Statement:
    if at.word() in _QUERY_WORDS:
        return Select(_query(at))
    for words, read in _STATEMENTS:
        if at.accept(*words):
            return read(at)
    for words, message in _REFUSED:
        start = at.offset
        if at.accept(*words):
            raise at.error(message, start)
    raise at.error(_unknown(at))


def _unknown(at: Cursor) -> str:
    first = [*_QUERY_WORDS[:2], *dict.fromkeys(words[0] for words, _ in _STATEMENTS)]
    near = difflib.get_close_matches(at.word(), first, n=1)
    hint = f" (did you mean {near[0].upper()}?)" if near and near[0] != at.word() else ""
    return f"{at.shown(2)} is not the beginning of a statement{hint}; the statements are {SUPPORTED}"


def _query(at: Cursor) -> Query:
    """The rest of the statement, as it stands."""
    piece = at.piece()
    at.end("here")
    return Query(at.text, piece)


def _view_query(at: Cursor, where: str) -> Query:
    if at.word() not in ("select", "with", "("):
        raise at.error(f"expected SELECT {where}, found {at.shown()}")
    return _query(at)


def _create_table(at: Cursor) -> Statement:
    if_not_exists = at.accept("if", "not", "exists")
    return CreateTable(read_table(at), if_not_exists)


def _create_view(at: Cursor) -> Statement:
    if_not_exists = at.accept("if", "not", "exists")
    name = at.name("a view")
    if at.word() == "(":
        raise at.error("a view takes its column names from its SELECT; give them there with AS")
    form = read_view_form(at)
    at.expect("as", where=f"after the view's name {name}")
    return CreateView(name, _view_query(at, "after AS"), if_not_exists, form)


def _drop_table(at: Cursor) -> Statement:
    if_exists = at.accept("if", "exists")
    name = at.name("a table")
    at.end("after DROP TABLE")
    return DropTable(name, if_exists)


def _drop_view(at: Cursor) -> Statement:
    if_exists = at.accept("if", "exists")
    name = at.name("a view")
    at.end("after DROP MATERIALIZED VIEW")
    return DropView(name, if_exists)


def _show(at: Cursor) -> Statement:
    at.accept("materialized")
    what = at.word()
    if what not in ("tables", "views"):
        raise at.error(f"expected TABLES or VIEWS after SHOW, found {at.shown()}")
    at.accept(what)
    at.end("after SHOW")
    return Show(what)


def _describe(at: Cursor) -> Statement:
    at.accept("table")
    name = at.name("a table or view")
    at.end("after DESCRIBE")
    return Describe(name)


def _explain(at: Cursor) -> Statement:
    if at.word() in ("select", "with", "("):
        return Explain(_query(at))
    name = at.name("a view (or a SELECT)")
    at.end("after EXPLAIN")
    return Explain(name)


def _insert(at: Cursor) -> Statement:
    table = at.name("a table")
    columns = _insert_columns(at) if at.word() == "(" and at.word(1) not in ("select", "with", "values") else None
    if at.word() == "values":
        rows = _value_rows(at, columns)
        at.end("after the last row of VALUES")
        return Insert(table, columns, Values(at.text, rows))
    if at.word() not in ("select", "with", "("):
        raise at.error(f"expected VALUES or SELECT after INSERT INTO {table}, found {at.shown()}")
    return Insert(table, columns, _query(at))


def _insert_columns(at: Cursor) -> tuple[str, ...]:
    at.expect("(", where="before the columns")
    columns: list[str] = []
    while True:
        offset = at.offset
        name = at.name("a column")
        if name in columns:
            raise at.error(f"column {name} is named twice", offset)
        columns.append(name)
        if not at.accept(","):
            break
    at.expect(")", where="or a comma after a column")
    return tuple(columns)


def _value_rows(at: Cursor, columns: tuple[str, ...] | None) -> tuple[Piece, ...]:
    """VALUES and its rows; each must be as long as the list of columns, or as the first row."""
    at.expect("values", where="before the rows")
    size = len(columns) if columns is not None else None
    rows: list[Piece] = []
    while True:
        offset, number = at.offset, len(rows) + 1
        values = at.bracketed(f"around row {number} of VALUES")
        for value in values:
            if value.start == value.stop:
                raise at.error(f"a value is missing in row {number} of VALUES", value.start)
        if size is not None and len(values) != size:
            like = "columns are named" if columns is not None else "are in the first row"
            raise at.error(f"row {number} of VALUES has {len(values)} values, but {size} {like}", offset)
        size = len(values)
        rows.append(at.since(offset))
        if not at.accept(","):
            return tuple(rows)


def _update(at: Cursor) -> Statement:
    table = at.name("a table")
    alias = _alias(at, "set")
    at.expect("set", where=f"after UPDATE {table}")
    columns: list[str] = []
    values: list[tuple[str, Piece]] = []
    while True:
        offset = at.offset
        column = at.name("a column")
        if column in columns:
            raise at.error(f"column {column} is set twice", offset)
        at.expect("=", where=f"after column {column}")
        value = at.piece(",", "where", "from", "returning")
        if value.start == value.stop:
            raise at.error(f"expected the new value of {column}, found {at.shown()}")
        columns.append(column)
        values.append((column, value))
        if not at.accept(","):
            break
    if at.word() == "from":
        raise at.error("UPDATE reads its own table alone; use a subquery in SET or WHERE for another one")
    where = _where(at, f"after SET of UPDATE {table}")

    def query(keys: tuple[str, ...]) -> Query:
        parts: list[str | Piece] = ["SELECT " + ", ".join(map(quoted, keys))]
        for name, piece in values:
            # the alias keeps names apart; the column itself may stand in the value
            parts += [", (", piece, f") AS {quoted('new ' + name)}"]
        return Query(at.text, *parts, f" FROM {quoted(table)}{alias}", *where)

    return Update(table, tuple(columns), query)


def _delete(at: Cursor) -> Statement:
    table = at.name("a table")
    alias = _alias(at, "where", "using")
    if at.word() == "using":
        raise at.error("DELETE reads its own table alone; use a subquery in WHERE for another one")
    where = _where(at, f"after DELETE FROM {table}")

    def query(keys: tuple[str, ...]) -> Query:
        return Query(at.text, f"SELECT {', '.join(map(quoted, keys))} FROM {quoted(table)}{alias}", *where)

    return Delete(table, query)


def _alias(at: Cursor, *next_words: str) -> str:
    if at.accept("as") or not (at.at_end or at.word() in next_words):
        return f" AS {quoted(at.name('an alias'))}"
    return ""


def _where(at: Cursor, place: str) -> tuple[str | Piece, ...]:
    """The WHERE clause as parts of a query; the condition in brackets, so that nothing else can follow it."""
    if not at.accept("where"):
        at.end(place)
        return ()
    condition = at.piece("returning", "order", "limit")
    at.end("after WHERE")
    if condition.start == condition.stop:
        raise at.error("expected a condition after WHERE, found the end of the statement")
    return (" WHERE (", condition, ")")


_QUERY_WORDS = ("select", "with", "values", "(")
_STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[Cursor], Statement]], ...] = (
    (("create", "table"), _create_table),
    (("drop", "table"), _drop_table),
    (("create", "materialized", "view"), _create_view),
    (("drop", "materialized", "view"), _drop_view),
    (("drop", "view"), _drop_view),
    (("insert", "into"), _insert),
    (("update",), _update),
    (("delete", "from"), _delete),
    (("show",), _show),
    (("describe",), _describe),
    (("desc",), _describe),
    (("explain",), _explain),
)
_REFUSED = (
    (("create", "view"), "a view here is kept up to date: write CREATE MATERIALIZED VIEW"),
    (("create", "or", "replace"), "nothing is replaced: use DROP first, then CREATE"),
    (("refresh",), "a view is always fresh: REFRESH is not needed"),
    (("alter",), "definitions are not altered: use DROP and CREATE"),
    (("truncate",), "write DELETE FROM and the table's name"),
    *(
        ((w,), "there are no transactions: each statement is applied by itself")
        for w in ("begin", "commit", "rollback")
    ),
)
SUPPORTED = (
    "CREATE TABLE, DROP TABLE, CREATE MATERIALIZED VIEW, DROP MATERIALIZED VIEW, SHOW TABLES, SHOW VIEWS,"
    " DESCRIBE, EXPLAIN, INSERT INTO, UPDATE, DELETE FROM, SELECT"
)
