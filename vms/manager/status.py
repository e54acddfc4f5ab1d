"""What an operator looks at first: `db.status()` and `vms status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vms.manager.database import Database


def status(db: Database) -> dict[str, Any]:
    """Plain values.

    `waiting` are entries of the change stream that no view has seen; 0 means that every view is fresh. Memory of
    what several views share is counted with each of them, and once in the total. Rows are counted by reading
    them, but for tables that are followed in memory.
    """
    readable, runtime = db.runtime.readable, db.runtime
    memory, letters = dict(runtime.memory), runtime.dead.counts()
    return {
        "store": f"embedded:{db.path}",
        "epoch": readable.point.epoch,
        "generation": readable.point.generation,
        "waiting": runtime.source.lag().entries,
        "memory_bytes": sum(memory.values()),
        "dead_letters": sum(letters.values()),
        "rebuilding": runtime.rebuilding,
        "warnings": list(runtime.warnings),
        "tables": {
            name: {
                "rows": _table_rows(db, name),
                "key": [] if table.hidden_key else list(table.key),
                "encoding": table.encoding.value,
                "memory_bytes": memory.get(f"table:{name}", 0),
                "dead_letters": letters.get(name, 0),
            }
            for name, table in db.catalog.tables.items()
        },
        "views": {
            name: {
                "rows": db.view(name).count(),
                "failing_rows": readable.errors.get(name, (0, None))[0],
                "failure": readable.errors.get(name, (0, None))[1],
                "memory_bytes": sum(memory.get(node.id, 0) for node in db.plan(name).plan.nodes),
            }
            for name in db.catalog.views
        },
    }


def _table_rows(db: Database, name: str) -> int:
    followed = db.runtime.member.store.delta_views.get(name)
    return len(followed) if followed is not None else sum(1 for _ in db.store.scan(name))
