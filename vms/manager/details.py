"""One table or one view in detail: `vms table show`, `vms view show`. Plain values, like `db.status()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vms.manager.ddl import create_statement
from vms.manager.status import table_status, view_status
from vms.model.catalog import Layout
from vms.plan.plan import Output

if TYPE_CHECKING:
    from vms.manager.database import Database

#: Dead letters that are shown; all of them are in `db.dead_letters()`.
_LETTERS = 20


def table_details(db: Database, name: str) -> dict[str, Any]:
    """Its columns and settings, what it holds, who reads it, and the text that declares it."""
    table = db.catalog.table(name)
    return {
        "table": name,
        "columns": [
            {"name": c.name, "type": str(c.type), "nullable": c.nullable, "key": c.name in table.key}
            for c in table.visible_columns
        ],
        **table_status(db, name, db.runtime.dead.counts()),
        "family": table.family,
        "rows_estimate": table.rows_estimate,
        "letters": _letters(db, name),
        "sql": create_statement(table),
    }


def view_details(db: Database, name: str) -> dict[str, Any]:
    """Its columns and row key, what it holds, what it reads, and its SELECT."""
    view, plan = db.catalog.view(name), db.plan(name)
    node = plan.plan.outputs[name]
    assert isinstance(node.spec, Output)
    key = {node.fields[i].name for i in node.spec.key}
    return {
        "view": name,
        "columns": [
            {"name": f.name, "type": str(f.type), "nullable": f.nullable, "key": f.name in key} for f in plan.fields
        ],
        **view_status(db, name),
        "layout": view.form.layout.value,
        "encoding": view.form.encoding.value if view.form.layout is Layout.COLUMNS else None,
        "notes": list(plan.notes),
        "sql": view.sql,
    }


def _letters(db: Database, table: str) -> list[dict[str, Any]]:
    """The first dead letters of the table; row keys and values in hexadecimal."""
    letters = [x for x in db.dead_letters().to_pylist() if x["table"] == table]
    return [
        {
            "row": x["row"].hex(),
            "column": x["column"] or None,
            "region": x["region"],
            "seq": int(x["seq"]),
            "ts": int(x["ts"]),
            "value": x["value"].hex(),
            "reason": x["reason"],
        }
        for x in letters[:_LETTERS]
    ]
