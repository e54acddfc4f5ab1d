"""The views' SQL as plain SELECT statements, one file a query, with the standard's validation parameters."""

from __future__ import annotations

from pathlib import Path

from vms.errors import UnknownName

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The queries that are there: q01, q03, ..."""
    return sorted(p.stem for p in _FOLDER.glob("q*.sql"))


def text(name: str) -> str:
    """The SELECT statement of one query."""
    if name not in names():
        raise UnknownName("TPC-H query", name, names())
    return (_FOLDER / f"{name}.sql").read_text(encoding="utf-8")
