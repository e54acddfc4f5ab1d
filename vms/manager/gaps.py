"""Gaps: what happened to a base table that its change stream does not tell (a bulk load, a truncate).

From a gap on, the views over the table are not right until they are made anew, in a new generation. A gap is kept in
the store, so that every manager and every restart knows of it, and it is kept before the stream is told that the
batch which brought it is dealt with: it cannot be lost.
"""

from __future__ import annotations

from typing import NamedTuple

import msgpack

from vms.errors import ViewStopped
from vms.store.base import MetaStore

_KEY = "gaps"


class Gap(NamedTuple):
    """The first gap in a table's stream since its views were made in `generation`."""

    table: str
    generation: int
    region: str
    seq: int
    reason: str


class Gaps:
    """The gaps of all tables, in the small values of the store."""

    def __init__(self, store: MetaStore) -> None:
        self._store = store

    def add(self, gap: Gap) -> None:
        """Keep it, durably; an earlier one of the same generation stays, one of another generation goes."""
        while True:
            before = self._store.meta_get(_KEY)
            found = _unpack(before)
            known = found.get(gap.table)
            if known is not None and known.generation >= gap.generation:
                return
            found[gap.table] = gap
            if self._store.meta_cas(_KEY, before, msgpack.packb(list(found.values()))):
                return

    def of(self, generation: int) -> dict[str, Gap]:
        """The tables whose views of this generation are not right."""
        return {t: gap for t, gap in _unpack(self._store.meta_get(_KEY)).items() if gap.generation == generation}


def _unpack(data: bytes | None) -> dict[str, Gap]:
    gaps = [] if data is None else [Gap(*values) for values in msgpack.unpackb(data)]
    return {gap.table: gap for gap in gaps}


def view_stopped(view: str, gap: Gap) -> ViewStopped:
    """What a reader of the view is told."""
    return ViewStopped(
        f"view {view} is not right any more: table {gap.table} changed in a way that its stream does not tell "
        f"({gap.reason}); make the views anew with: vms view rebuild {view}"
    )
