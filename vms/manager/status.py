"""What an operator looks at first: `db.status()` and `vms status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vms.manager.sharing import parts, users, view_bytes

if TYPE_CHECKING:
    from vms.manager.database import Database


def status(db: Database) -> dict[str, Any]:
    """Plain values.

    `waiting` are entries of the change stream that no view has seen; 0 means that every view is fresh. `parts` are
    the operations and DeltaViews that hold memory, with the views that use them: what several share is there once, as
    in the total.
    """
    letters, used, point = db.runtime.dead.counts(), users(db), db.runtime.readable.point
    facts = db.runtime.facts()
    return {
        "store": db.address,
        "epoch": point.epoch,
        "generation": point.generation,
        "waiting": facts.waiting,
        "memory_bytes": sum(db.runtime.memory.values()),
        **db.backend.status(),
        "dead_letters": sum(letters.values()),
        "rebuilding": facts.rebuilding,
        "building": sorted(db.catalog.builds),
        "scanning": dict(facts.scanning),
        "warnings": list(facts.warnings),
        "managers": list(facts.managers),
        "tables": {name: table_status(db, name, letters) for name in db.catalog.tables},
        "views": {name: view_status(db, name, used) for name in db.catalog.views},
        "parts": parts(db),
    }


def table_status(db: Database, name: str, letters: Mapping[str, int]) -> dict[str, Any]:
    """`letters`: dead letters by table. Rows are counted by reading them, but for tables followed in memory."""
    table, generation = db.catalog.table(name), db.runtime.readable.point.generation
    followed = db.runtime.followed_rows(name)
    return {
        "rows": sum(1 for _ in db.store.scan(name)) if followed is None else followed,
        "key": [] if table.hidden_key else list(table.key),
        "encoding": table.encoding.value,
        "views": db.readers(name),
        "memory_bytes": db.runtime.memory.get(f"table:{name}", 0),
        "images": None if table.images is None else "settled" if table.images == generation else "settling",
        "dead_letters": letters.get(name, 0),
    }


def view_status(db: Database, name: str, used: Mapping[str, list[str]] | None = None) -> dict[str, Any]:
    """`failure` is one of the failing rows in words; `stopped` is why the view has to be rebuilt; `memory_bytes` is of
    all that the view uses, `own_bytes` of what it shares with no other. `used`: as `users` finds it."""
    failing, failure = db.runtime.readable.errors.get(name, (0, None))
    plan, gap = db.plan(name), db.view(name).gap
    memory, own = view_bytes(name, db.runtime.memory, users(db) if used is None else used)
    return {
        "rows": db.view(name).count(),
        "tables": list(plan.tables),
        "views": list(plan.views),
        "read_by": db.readers(name),
        "failing_rows": failing,
        "verified": db.catalog.view(name).verified,
        "failure": failure,
        "stopped": None if gap is None else f"table {gap.table}: {gap.reason}",
        "memory_bytes": memory,
        "own_bytes": own,
    }
