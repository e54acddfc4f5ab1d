"""What several views have in common: each operation and DeltaView with the views that use it, and its memory.

A part is the id of a node of the merged plan, `table:NAME` for the DeltaView of a table, or `text` for the values of
text columns, which all views have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vms.plan.explain import Running, describe_operation

if TYPE_CHECKING:
    from vms.manager.database import Database


def users(db: Database) -> dict[str, list[str]]:
    """The views that use each part."""
    found: dict[str, list[str]] = {}
    for view in db.catalog.views:
        plan = db.plan(view).plan
        for part in (*(n.id for n in plan.nodes), *(f"table:{t}" for t in plan.sources), "text"):
            found.setdefault(part, []).append(view)
    return found


def running(db: Database, view: str) -> Running:
    """How the view lives among the others."""
    settled = db.runtime.programs.program(db.catalog, db.runtime.readable.point.generation).settled
    return Running(users(db), db.runtime.memory, db.readers(view), settled)


def parts(db: Database) -> list[dict[str, Any]]:
    """Every part that holds memory, the largest first. Their sum is the memory of all views."""
    plan, used = db.runtime.programs.program(db.catalog).plan, users(db)
    nodes = {n.id: n for n in plan.nodes}
    found = []
    for part, count in db.runtime.memory.items():
        if count and part in used:
            found.append(
                {
                    "part": part,
                    "operation": describe_operation(plan, nodes[part]) if part in nodes else _other(part),
                    "memory_bytes": count,
                    "views": used[part],
                }
            )
    return sorted(found, key=lambda p: (-p["memory_bytes"], p["part"]))


def view_bytes(view: str, memory: Mapping[str, int], used: Mapping[str, list[str]]) -> tuple[int, int]:
    """Memory of what the view uses, and of what it alone does. Text is left out: it belongs to no view."""
    mine = [part for part in memory if part != "text" and view in used.get(part, ())]
    return sum(memory[part] for part in mine), sum(memory[part] for part in mine if used[part] == [view])


def _other(part: str) -> str:
    return f"DeltaView of {part.removeprefix('table:')}" if part.startswith("table:") else "values of text columns"
