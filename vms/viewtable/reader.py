"""Consistent reads of a view: everything as of one committed epoch (design section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from vms.errors import TableMissing, ViewTooOld
from vms.maintenance.record import ReadPoint, Record
from vms.store.base import KVStore, Row
from vms.viewtable.layout import TTL_MS, VERSIONS

Result = TypeVar("Result")

#: A read that was overtaken is repeated at a newer epoch so often. Not higher: a reader that is overtaken
#: this often needs a pinned epoch, not more luck.
TRIES = 5
#: How long an epoch may be under way with the one before it readable. Not more: an hour is left for the read.
_LONGEST_EPOCH_MS = TTL_MS - 3600 * 1000


def overdue(record: Record, now_ms: int) -> bool:
    """Whether a read could miss rows: those that the epoch under way has deleted, so long ago that the store may
    have purged them.

    The age of the committed epoch says nothing: what it left is kept however old it is, until something changes it.
    """
    return bool(record.unfinished) and record.unfinished < now_ms - _LONGEST_EPOCH_MS


def read_view(
    store: KVStore,
    take: Callable[[Iterable[tuple[bytes, Row]]], Result],
    table_at: Callable[[ReadPoint], str],
    point: Callable[[], tuple[ReadPoint, int]],
    unhurried: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[Result, int]:
    """What `take` makes of all rows of the view at the newest committed epoch, and that epoch.

    `point` gives the read point and how many epochs were committed so far: a read during which more epochs
    were committed than versions are kept may have missed an overwritten row, and is repeated, never returned; with
    `unhurried`, in which epochs come more slowly. So is one during which the generation was replaced: its tables are
    dropped, and a leader that does not know yet may have made one of them anew, empty.
    """
    (taken,), epoch = read_views(store, [(take, table_at)], point, unhurried)
    return taken, epoch


def read_views(
    store: KVStore,
    views: Sequence[tuple[Callable[[Iterable[tuple[bytes, Row]]], Result], Callable[[ReadPoint], str]]],
    point: Callable[[], tuple[ReadPoint, int]],
    unhurried: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[list[Result], int]:
    """The same of several views, all at one epoch."""
    for number in range(TRIES):
        with unhurried() if number else nullcontext():
            at, before = point()
            try:
                taken = [take(store.scan(table_at(at), before=at.epoch + 1)) for take, table_at in views]
            except TableMissing:
                continue  # the generation was replaced meanwhile
            now, count = point()
            if count - before <= VERSIONS - 2 and now.generation == at.generation:
                return taken, at.epoch
    raise ViewTooOld(
        f"more than {VERSIONS - 2} epochs were committed during each of {TRIES} reads; "
        "read a smaller range, or raise epoch_interval"
    )
