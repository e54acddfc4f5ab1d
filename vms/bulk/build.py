"""A view built by a bulk job, over tables that hold rows already, while clients go on writing (design section 10).

    register    the view is in the catalog as one that is being built: from here on changes of its tables wait
    snapshot    the tables at one instant, and the cut: the highest sequence id of each region that is in it
    job         the plan on Spark, over the snapshot (vms/bulk/job.py): state, and the rows of the view
    rows        these rows into the view's table, below the epoch that will show them
    hand over   when all that is in the snapshot has passed by the managers, the view is there with its load: they
                take the state at an epoch boundary, bring it on by what waited, and skip what the snapshot holds

A build that was killed at any point goes on from there: the snapshot stays as it is until the view is there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgpack
import numpy as np
from pyspark.sql import SparkSession

from vms.bulk.job import Job
from vms.bulk.readers import EmbeddedReader
from vms.errors import StoreError, UserError
from vms.maintenance.messages import ViewRows
from vms.maintenance.stage_run import VIEW
from vms.maintenance.virtual_store import read_columns
from vms.manager.bulk_files import Folder, read_state
from vms.manager.database import Database
from vms.model.arrow import to_changes
from vms.model.catalog import BulkLoad, Catalog, ViewDefinition
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.token import Token
from vms.plan.plan import MaintenancePlan, Node
from vms.store.embedded import EmbeddedStore
from vms.viewtable.layout import ViewLayout

#: Rows of the view that are written at once: see `vms.manager.load.PUT_ROWS`.
_WRITTEN_ROWS = 10_000
#: Told what is done: a phase, how much of it from 0 to 1, and rows so far.
Progress = Callable[[str, float, int], None]


def _quiet(_phase: str, _share: float, _rows: int) -> None:
    pass


@dataclass(frozen=True)
class Begun:
    """What a build has settled once its snapshot is there; kept in its folder."""

    created: int
    generation: int
    horizon: int
    #: Timestamp of the rows that the job writes.
    epoch: int
    positions: dict[str, int]
    #: Those of the job, so that ranges and parts are the same when it goes on.
    sizes: tuple[int, int, int]

    def to_bytes(self) -> bytes:
        return msgpack.packb(
            [self.created, self.generation, self.horizon, self.epoch, self.positions, list(self.sizes)]
        )

    @staticmethod
    def from_bytes(data: bytes) -> Begun:
        return Begun(*msgpack.unpackb(data))


@dataclass(frozen=True)
class Sizes:
    """Into how many parts the slots are cut, about how many rows a range has, and how many ranges are read at a time.

    A part is one task in every stage but the first, and has to fit into the memory of a worker.
    """

    parts: int = 8
    range_rows: int = 500_000
    wave: int = 8


DEFAULT_SIZES = Sizes()


class Build:
    """The build of one view. `register` or `resume`, then `run`."""

    def __init__(self, db: Database, view: ViewDefinition, sizes: Sizes) -> None:
        if not isinstance(db.store, EmbeddedStore):
            raise UserError(f"{db.address} is no embedded store: bulk jobs read a snapshot of one")
        self._db, self._view, self._sizes = db, view, sizes
        self._plan = db.runtime.programs.plan(db.catalog, view.name, view.sql).plan
        self._store = db.store
        self.folder = str(_folder_of_builds(self._store) / f"{view.name}.{view.created}")

    @staticmethod
    def register(db: Database, name: str, sql: str, sizes: Sizes = DEFAULT_SIZES) -> Build:
        """Let the view be one that is being built. Wrong SQL is refused, and changes nothing."""
        before = db.catalog
        after = before.with_build(name, sql)
        plan = db.runtime.programs.plan(before, name, sql)
        db.backend.check_view(after.builds[name], plan.plan.sources)
        build = Build(db, after.builds[name], sizes)
        _tidy(build._store, before)
        db.change_catalog(before, after)
        return build

    @staticmethod
    def resume(db: Database, name: str, sizes: Sizes = DEFAULT_SIZES) -> Build:
        """The build of this name that was cut off."""
        if name not in db.catalog.builds:
            building = ", ".join(sorted(db.catalog.builds)) or "none"
            raise UserError(f"no view {name} is being built; being built: {building}")
        return Build(db, db.catalog.builds[name], sizes)

    def run(self, spark: SparkSession, progress: Progress = _quiet, pause: Callable[[], None] = lambda: None) -> int:
        """Everything that is still to do; returns how many rows of the tables the snapshot held."""
        begun = self._snapshot()
        job, rows = self._job(begun), 0

        def told(done: int, of: int, read: int) -> None:
            nonlocal rows
            rows = read
            progress("reading", done / max(of, 1), read)

        if not Folder(self.folder).exists("manifest"):
            letters = job.run(spark, told, pause)
            self._db.runtime.dead.add(letters)
        progress("writing", 0.0, rows)
        self._write(begun)
        progress("handing over", 0.0, rows)
        self._hand_over(begun, job)
        Folder(self.folder).delete()
        return rows

    def _snapshot(self) -> Begun:
        """Take it, unless it was taken in this generation of the views."""
        folder, runtime = Folder(self.folder), self._db.runtime
        runtime.wait(lambda: runtime.facts().rebuilding is None)
        if folder.exists("begun"):
            begun = Begun.from_bytes(folder.read("begun"))
            if begun.generation == runtime.readable.point.generation:
                self._sizes = Sizes(*begun.sizes)
                return begun
        folder.delete()
        point = runtime.readable.point
        self._store.checkpoint(Path(self.folder) / "snapshot")
        positions: dict[str, int] = {}
        reader = self._reader(self._db.clock.now())
        for table in self._plan.sources:
            positions.update(reader.positions(table))
        sizes = (self._sizes.parts, self._sizes.range_rows, self._sizes.wave)
        begun = Begun(self._view.created, point.generation, reader.horizon, point.epoch, positions, sizes)
        folder.write("begun", [begun.to_bytes()])
        return begun

    def _reader(self, horizon: int) -> EmbeddedReader:
        return EmbeddedReader(f"{self.folder}/snapshot", horizon, self._sizes.range_rows)

    def _job(self, begun: Begun) -> Job:
        """It reads the columns that the views that are there need, too: then no table has to be scanned for it."""
        catalog, programs = self._db.catalog, self._db.runtime.programs
        merged = MaintenancePlan.merge([programs.program(catalog).plan, self._plan])
        columns = {t: read_columns(catalog.tables[t], merged) for t in self._plan.sources}
        tables = {t: catalog.tables[t] for t in self._plan.sources}
        reader, sizes = self._reader(begun.horizon), self._sizes
        return Job(self._plan, tables, columns, reader, self.folder, sizes.parts, sizes.wave)

    def _write(self, begun: Begun) -> None:
        """The rows of the view, as of an epoch before the one that will show them: twice is once."""
        node = self._plan.outputs[self._view.name]
        layout, table = ViewLayout(node, self._view.form), self._view.table(begun.generation)
        if self._db.runtime.readable.point.generation != begun.generation:
            raise StoreError(
                f"the views were rebuilt while {self._view.name} was being built, so that what changed meanwhile is "
                f"not known; vms bulk resume {self._view.name} begins anew"
            )
        for rows, pool in self._rows(node):
            nothing = Changes.empty(len(node.fields))
            for start in range(0, len(rows), _WRITTEN_ROWS):
                some = rows.take(np.arange(start, min(start + _WRITTEN_ROWS, len(rows))))
                self._store.mutate(table, layout.mutations(ViewRows(some, nothing), begun.epoch, pool))

    def _rows(self, node: Node) -> Iterator[tuple[Changes, TextPool]]:
        for name, batch in read_state(Folder(self.folder)):
            if name == VIEW:
                pool = TextPool()
                yield to_changes(node.types, batch, pool), pool

    def _hand_over(self, begun: Begun, job: Job) -> None:
        db, name = self._db, self._view.name
        db.wait(Token(begun.positions))
        cuts = {t: job.reader.cuts(job.tables[t]) for t in self._plan.sources}
        before = db.catalog
        db.change_catalog(before, before.with_built(name, BulkLoad(self.folder, begun.generation, job.columns, cuts)))


def _folder_of_builds(store: EmbeddedStore) -> Path:
    return store.path.parent.resolve() / "bulk"


def _tidy(store: EmbeddedStore, catalog: Catalog) -> None:
    """Remove what builds left that were dropped."""
    wanted = {f"{v.name}.{v.created}" for v in catalog.builds.values()}
    folder = _folder_of_builds(store)
    for left in folder.iterdir() if folder.exists() else ():
        if left.name not in wanted:
            shutil.rmtree(left, ignore_errors=True)
