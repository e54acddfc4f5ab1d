"""CREATE TABLE text to `BaseTable`.

    CREATE TABLE name (
        column TYPE [NOT NULL] [PRIMARY KEY], ...
        [, PRIMARY KEY (column, ...)]
    ) [WITH (family = 'd', encoding = 'bytes', rows = 1000000)]

The length of VARCHAR(n) and CHAR(n) is read and not enforced: stored text is neither cut nor padded. A table
without PRIMARY KEY gets the generated key column `_rowid`, so that equal rows are kept apart.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from vms.errors import InvalidValue, SqlError
from vms.manager.script import Cursor, quoted, statements
from vms.model.catalog import USUAL_FORM, Layout, ViewForm
from vms.model.table import HIDDEN_KEY, MARKER, BaseTable, Encoding, TableColumn
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType, decimal

#: A change names its columns by the bits of one word; the last bit is the marker cell (vms/model/changes.py).
MAX_VALUE_COLUMNS = 63

_SIMPLE = {
    "boolean": BOOLEAN,
    "bool": BOOLEAN,
    "int": INTEGER,
    "integer": INTEGER,
    "bigint": BIGINT,
    "float8": DOUBLE,
    "date": DATE,
    "text": VARCHAR,
    "string": VARCHAR,
}
_SIZED_TEXT = ("varchar", "char", "character")
_DECIMALS = ("decimal", "numeric")
_TYPES = "BOOLEAN, INTEGER, BIGINT, DECIMAL(p, s), DOUBLE, DATE, TIMESTAMP, VARCHAR"
_OPTIONS = ("family", "encoding", "rows")
_VIEW_OPTIONS = ("layout", "encoding")
_FAMILY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_RESERVED = {
    HIDDEN_KEY: "it is the generated key of tables without PRIMARY KEY",
    MARKER: "it is the cell that marks a row as present",
}


def parse_create_table(text: str) -> BaseTable:
    """The table that one CREATE TABLE statement declares."""
    found = statements(text)
    if len(found) != 1:
        raise SqlError(f"expected one CREATE TABLE statement, found {len(found)} statements")
    found[0].expect("create", "table", where="at the beginning")
    found[0].accept("if", "not", "exists")
    return read_table(found[0])


def create_statement(table: BaseTable) -> str:
    """The text that declares the table: `parse_create_table` reads it back as it is."""
    lines = [f"{_as_name(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.visible_columns]
    if not table.hidden_key:
        lines.append(f"PRIMARY KEY ({', '.join(map(_as_name, table.key))})")
    options = [f"family = '{table.family}'", f"encoding = '{table.encoding.value}'"]
    if table.rows_estimate is not None:
        options.append(f"rows = {table.rows_estimate}")
    columns = ",\n    ".join(lines)
    return f"CREATE TABLE {_as_name(table.name)} (\n    {columns}\n) WITH ({', '.join(options)})"


def read_table(at: Cursor) -> BaseTable:
    """The table whose name comes next, to the end of the statement."""
    name = at.name("a table")
    columns: dict[str, TableColumn] = {}
    key: tuple[str, ...] = ()
    start = key_at = at.offset
    at.expect("(", where=f"and the columns after the table's name {name}")
    while True:
        item = at.offset
        if _is_table_key(at):
            declared = _table_key(at)
        else:
            column, is_key = _column(at)
            if column.name in columns:
                raise at.error(f"column {column.name} is declared twice", item)
            columns[column.name] = column
            declared = (column.name,) if is_key else ()
        if declared and key:
            raise at.error("a table has one PRIMARY KEY; list all its columns in one: PRIMARY KEY (a, b)", item)
        if declared:
            key, key_at = declared, item
        if not at.accept(","):
            break
    at.expect(")", where="or a comma after a column")
    options = _options(at)
    at.end("after CREATE TABLE")
    for column_name in key:
        if column_name not in columns:
            raise at.error(
                f"PRIMARY KEY names {column_name}, but there is no such column{_near(column_name, columns)}",
                key_at,
            )
        if key.count(column_name) > 1:
            raise at.error(f"PRIMARY KEY names {column_name} twice", key_at)
    count = len(columns) - len(key)
    if count > MAX_VALUE_COLUMNS:
        raise at.error(
            f"{count} columns besides the key are too many: {MAX_VALUE_COLUMNS} are possible; use two tables",
            start,
        )
    return _table(name, list(columns.values()), key, options)


def _as_name(name: str) -> str:
    return quoted(name) if name in ("constraint", "if", "primary") else name


def _table(name: str, columns: list[TableColumn], key: tuple[str, ...], options: dict[str, str]) -> BaseTable:
    columns = [TableColumn(c.name, c.type, c.nullable and c.name not in key) for c in columns]
    if not key:
        columns.insert(0, TableColumn(HIDDEN_KEY, VARCHAR, nullable=False))
    return BaseTable(
        name,
        tuple(columns),
        key or (HIDDEN_KEY,),
        family=options.get("family", "d"),
        encoding=Encoding(options.get("encoding", "bytes")),
        hidden_key=not key,
        rows_estimate=int(options["rows"]) if "rows" in options else None,
    )


def _is_table_key(at: Cursor) -> bool:
    return at.word() == "constraint" or (at.word() == "primary" and at.word(1) == "key")


def _table_key(at: Cursor) -> tuple[str, ...]:
    if at.accept("constraint"):
        at.name("a constraint")
        if at.word() != "primary":
            raise at.error(f"only PRIMARY KEY is possible as a constraint of a table, found {at.shown()}")
    at.expect("primary", "key", "(", where="in the constraint")
    key = [at.name("a key column")]
    while at.accept(","):
        key.append(at.name("a key column"))
    at.expect(")", where="after the key columns")
    return tuple(key)


def _column(at: Cursor) -> tuple[TableColumn, bool]:
    offset = at.offset
    name = at.name("a column")
    if name in _RESERVED:
        raise at.error(f"no column can be named {name}: {_RESERVED[name]}", offset)
    type_ = _type(at)
    nullable, is_key = True, False
    while at.word() not in (",", ")"):
        if at.accept("not", "null"):
            nullable = False
        elif at.accept("primary", "key"):
            is_key = True
        elif not at.accept("null"):
            raise at.error(
                f"expected NOT NULL, PRIMARY KEY, a comma or a closing bracket after column {name},"
                f" found {at.shown()}; no other constraint is kept"
            )
    return TableColumn(name, type_, nullable), is_key


def _type(at: Cursor) -> SqlType:
    offset, word = at.offset, at.word()
    if word in _SIMPLE:
        at.accept(word)
        return _SIMPLE[word]
    if at.accept("double"):
        at.accept("precision")
        return DOUBLE
    if at.accept("timestamp"):
        at.accept("without", "time", "zone")
        if at.accept("with", "time", "zone"):
            raise at.error("TIMESTAMP WITH TIME ZONE is no type here; store UTC in a TIMESTAMP", offset)
        return TIMESTAMP
    if word in _SIZED_TEXT:
        at.accept(word)
        at.accept("varying")
        if at.accept("("):
            at.number("the length")
            at.expect(")", where="after the length")
        return VARCHAR
    if word in _DECIMALS:
        at.accept(word)
        if not at.accept("("):
            raise at.error(f"{word.upper()} needs its number of digits, as in DECIMAL(15, 2)", offset)
        precision = at.number("the number of digits")
        scale = at.number("the number of digits after the point") if at.accept(",") else 0
        at.expect(")", where=f"after the digits of {word.upper()}")
        try:
            return decimal(precision, scale)
        except InvalidValue as error:
            raise at.error(str(error), offset) from None
    raise at.error(f"{at.shown()} is no type here; the types are {_TYPES}")


def read_view_form(at: Cursor) -> ViewForm:
    """What WITH (...) says about how a view is stored; the usual form where there is none."""
    offset = at.offset
    options = _options(at, _VIEW_OPTIONS)
    layout = Layout(options.get("layout", USUAL_FORM.layout.value))
    if layout is Layout.PACKED and "encoding" in options:
        raise at.error("a packed row has no encoding: it is msgpack; leave the option out", offset)
    return ViewForm(layout, Encoding(options.get("encoding", USUAL_FORM.encoding.value)))


def _options(at: Cursor, names: Sequence[str] = _OPTIONS) -> dict[str, str]:
    """What WITH (...) says, each value checked; empty where there is none."""
    options: dict[str, str] = {}
    if not at.accept("with"):
        return options
    at.expect("(", where="after WITH")
    while True:
        offset = at.offset
        option = at.name("an option")
        if option not in names:
            raise at.error(
                f"no option is named {option}{_near(option, names)}; there are {', '.join(names)}",
                offset,
            )
        if option in options:
            raise at.error(f"option {option} is given twice", offset)
        at.expect("=", where=f"after {option}")
        options[option] = _option_value(at, option)
        if not at.accept(","):
            break
    at.expect(")", where="or a comma after an option")
    return options


def _option_value(at: Cursor, option: str) -> str:
    offset = at.offset
    if option == "rows":
        return str(at.number("the expected number of rows"))
    value = at.string(f"the {option}")
    if option == "family" and not _FAMILY.fullmatch(value):
        raise at.error(f"'{value}' cannot be a column family: use letters, digits, '_', '-' and '.'", offset)
    known = {"encoding": [e.value for e in Encoding], "layout": [x.value for x in Layout]}.get(option, [value])
    if value not in known:
        raise at.error(f"there is no {option} '{value}'{_near(value, known)}; use one of {', '.join(known)}", offset)
    return value


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
