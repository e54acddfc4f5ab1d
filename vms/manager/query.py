"""SELECT over tables and views: DataFusion runs it over Arrow tables read from the store.

Only the tables and views that the text names are read. Types, rounding and NULL rules are DataFusion's, with
the settings that the views are planned with: 0.06 is a decimal, so arithmetic is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from datafusion import SessionConfig, SessionContext, SQLOptions

from vms.errors import SqlError
from vms.manager.script import Query, names_in, quoted
from vms.model.table import HIDDEN_KEY
from vms.model.token import Token
from vms.plan.refusals import explain_error, plain
from vms.plan.spellings import read

if TYPE_CHECKING:
    from vms.manager.database import Database

_SETTINGS = {
    "datafusion.sql_parser.parse_float_as_decimal": "true",
    # VARCHAR is Arrow's string everywhere, as in our tables
    "datafusion.sql_parser.map_string_types_to_utf8view": "false",
    # sums of DOUBLE do not depend on the number of processors
    "datafusion.execution.target_partitions": "1",
}
_QUERIES_ONLY = SQLOptions().with_allow_ddl(False).with_allow_dml(False).with_allow_statements(False)


def run_query(db: Database, query: Query | str, *, level: str = "any", token: Token | None = None) -> pa.Table:
    """The result of a SELECT (or VALUES). Views are read at `level`, with `token` where that is "critical".

    Raises SqlError, with the position in the script the query was cut from, and UnknownName.
    """
    if isinstance(query, str):
        return run_query(db, Query.of(query), level=level, token=token)
    with query.located():
        return _run(db, query.sql, level, token)


def _run(db: Database, sql: str, level: str, token: Token | None) -> pa.Table:
    names = names_in(sql)
    context = SessionContext(SessionConfig(_SETTINGS))
    known = {name: [c.name for c in t.visible_columns] for name, t in db.catalog.tables.items()}
    for name in sorted(names & db.catalog.tables.keys()):
        _register(context, name, _rows(db, name, with_hidden=HIDDEN_KEY in names))
    for name in sorted(names & db.catalog.views.keys()):
        rows = db.view(name).read(level=level, token=token)
        known[name] = rows.column_names
        _register(context, name, rows)
    try:
        frame = read(lambda text: context.sql_with_options(text, _QUERIES_ONLY), sql)
    except Exception as error:
        raise explain_error(error, sql, known) from None
    try:
        return _plain_text(frame.to_arrow_table())
    except Exception as error:
        raise SqlError(f"the statement cannot be computed: {plain(error)}") from None


def _rows(db: Database, name: str, *, with_hidden: bool) -> pa.Table:
    table = db.catalog.tables[name]
    columns = table.columns if with_hidden else table.visible_columns
    return db.scan(name).select([c.name for c in columns])


def _register(context: SessionContext, name: str, rows: pa.Table) -> None:
    empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in rows.schema], schema=rows.schema)
    context.register_record_batches(quoted(name), [rows.to_batches() or [empty]])


def _plain_text(table: pa.Table) -> pa.Table:
    """Text as Arrow's `string`, which every reader knows; DataFusion may answer in other forms."""
    fields = [f.with_type(pa.string()) if _is_other_text(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def _is_other_text(type_: pa.DataType) -> bool:
    return pa.types.is_string_view(type_) or pa.types.is_large_string(type_) or pa.types.is_dictionary(type_)
