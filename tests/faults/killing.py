"""A process that takes the steps of a history and kills itself at one exact point of the protocol.

A point is a method and whether death comes before or after it does its work; `kill_at` wraps it. What is
killed is the shipped code: nothing in it knows about this.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import history

import vms
from vms.manager import checkpoints, log, performer
from vms.manager.coordination import LocalCoordination
from vms.manager.log import TransactionLog
from vms.store.directory import Directory
from vms.store.embedded import EmbeddedStore


@dataclass(frozen=True)
class Point:
    """Where to die: in the calls of `owner.name` that `counts` is true for."""

    owner: Any
    name: str
    after: bool
    counts: Callable[..., bool] = lambda *args, **kwargs: True


def _of_view(store: EmbeddedStore, table: str, *args: Any, **kwargs: Any) -> bool:
    return "." in table and table != "vms.dead_letters"


def _of_spare(store: Any, table: str, *args: Any, **kwargs: Any) -> bool:
    return table == "spare"


def _commits(coordination: LocalCoordination, expected: Any, record: Any) -> bool:
    return record.committed


def _issues(coordination: LocalCoordination, expected: Any, record: Any) -> bool:
    return not record.committed


def _issues_catalog(coordination: LocalCoordination, expected: Any, record: Any) -> bool:
    return record.catalog != expected.catalog


def _catalog_pointer(store: EmbeddedStore, key: str, value: Any) -> bool:
    return key == "catalog"


POINTS = {
    "an epoch is about to be issued": Point(LocalCoordination, "compare_and_set", False, _issues),
    "an epoch is issued": Point(LocalCoordination, "compare_and_set", True, _issues),
    "an epoch with a new catalog is issued": Point(LocalCoordination, "compare_and_set", True, _issues_catalog),
    "the cut is about to be written": Point(TransactionLog, "propose", False),
    "the cut has no name yet": Point(log.os, "link", False),
    "the cut is durable": Point(TransactionLog, "propose", True),
    "rows were read again": Point(performer, "read_keys", True),
    "the source is about to forget": Point(EmbeddedStore, "acknowledge", False),
    "the source has forgotten": Point(EmbeddedStore, "acknowledge", True),
    "no view row is written": Point(performer, "write_views", False),
    "some views are written": Point(EmbeddedStore, "mutate", True, _of_view),
    "all views are written": Point(performer, "write_views", True),
    "the epoch is about to be committed": Point(LocalCoordination, "compare_and_set", False, _commits),
    "the epoch is committed": Point(LocalCoordination, "compare_and_set", True, _commits),
    "a checkpoint is about to be exported": Point(checkpoints.Checkpoints, "_export", False),
    "half a checkpoint is written": Point(log, "batch_to_bytes", True),
    "a checkpoint has no name yet": Point(log.os, "replace", False),
    "a checkpoint is there, the old log too": Point(log.os, "replace", True),
    "a checkpoint is complete": Point(TransactionLog, "save_checkpoint", True),
    "a view table is about to be made": Point(EmbeddedStore, "create_table", False, _of_view),
    "a view table is made": Point(EmbeddedStore, "create_table", True, _of_view),
    "a table was scanned for a view": Point(performer, "scan_table", True),
    "a view table is about to be dropped": Point(EmbeddedStore, "drop_table", False, _of_view),
    "a view table is dropped": Point(EmbeddedStore, "drop_table", True, _of_view),
    "a catalog is written, not in force": Point(EmbeddedStore, "meta_put", False, _catalog_pointer),
    "a catalog is in force": Point(EmbeddedStore, "meta_put", True, _catalog_pointer),
    "a table is made, not declared": Point(EmbeddedStore, "create_table", True, _of_spare),
    "a table is not declared any more": Point(EmbeddedStore, "drop_table", False, _of_spare),
    "a table is dropped": Point(EmbeddedStore, "drop_table", True, _of_spare),
    "a region is about to be split": Point(Directory, "split", False),
    "a region is split": Point(Directory, "split", True),
}


def kill_at(point: Point, occurrence: int) -> None:
    """From now on, die at the n-th call that counts."""
    original, calls = getattr(point.owner, point.name), 0

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        counts = point.counts(*args, **kwargs)
        calls += counts
        if counts and calls == occurrence and not point.after:
            die()
        result = original(*args, **kwargs)
        if counts and calls == occurrence and point.after:
            die()
        return result

    setattr(point.owner, point.name, wrapped)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(path: str, seed: int, start: int, stop: int, name: str | None, occurrence: int, told: Connection) -> None:
    """Take the steps from `start` to before `stop`; tell the number of each when it is taken."""
    checkpoints.CHECKPOINT_BYTES = 30_000
    with vms.connect(f"embedded:{path}", epoch_interval=0.002) as db:
        history.define(db)
        if name is not None:
            kill_at(POINTS[name], occurrence)
        for index in range(start, stop):
            history.take(db, history.step(seed, index))
            told.send(index)
            if index % 7 == 6:
                db.wait(db.latest())
