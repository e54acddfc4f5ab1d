"""The demo: TPC-H views that stay right while their tables change, and the proof of it at the end.

Everything goes through the API, as a program of yours would do it. Threads play the users of a database: one
writes, one reads every view again and again and notes how long the newest write took to show, one for each
view watches its changes, and one creates a view over rows that are there, while writes go on.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Protocol

import pyarrow as pa

import vms
from bench.tpch import data, queries
from bench.tpch.changes import ChangeStream, TableBatch
from bench.tpch.expected import expected
from bench.tpch.schema import TABLES, ddl
from vms.errors import UserError
from vms.model.token import Token
from vms.plan.frontend import plan_view
from vms.testing.compare import assert_same_rows

SEED = 1
#: Changes a second of the live stream. Not higher: writer, View Manager and readers share one process here, and
#: two busy cores would show how they wait for each other; not lower, or nothing would seem to happen.
RATE = 2000
#: Changes that are written between two looks at the clock.
STEP = 200
LOAD_SHARE = 0.8
LOAD_STEP = 5000
#: What happens to rows that are there, as parts of all changes that are not first inserts.
UPDATES, PARTIAL_PUTS, DELETES, REINSERTS = 0.35, 0.35, 0.18, 0.12
#: Seconds between two pictures.
REFRESH = 0.25
#: Rows of each table with which the kernels are made ready.
WARM_UP_ROWS = 300


@dataclass
class ViewFigures:
    """What the demo saw of one view.

    `changed` counts its changed rows since `watched`. `freshness` holds the newest measurements: seconds from the
    return of a write to the end of the first read that shows it.
    """

    name: str
    rows: int | None = None
    watched: float = 0.0
    changed: int = 0
    freshness: deque[float] = field(default_factory=lambda: deque(maxlen=20))

    @property
    def changed_per_second(self) -> float:
        return self.changed / max(time.monotonic() - self.watched, 1)

    @property
    def median_freshness(self) -> float | None:
        return statistics.median(self.freshness) if self.freshness else None


class Screen(Protocol):
    """Where the demo is shown: a terminal, or lines of text."""

    def working(self, what: str) -> AbstractContextManager[None]:
        """Something that takes a moment begins; it is over when the context ends."""

    def say(self, text: str) -> None: ...

    def live(self) -> AbstractContextManager[None]:
        """While the stream runs: `show` may be called."""

    def show(self, stream: LiveStream) -> None: ...


def run(folder: Path, screen: Screen, *, sf: float, seconds: float) -> bool:
    """The whole demo in a new database in `folder`; whether every view was exact at the end."""
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty; name a folder that is not there yet")
    names = queries.names()
    late = names[len(names) // 2]
    with tempfile.TemporaryDirectory() as scratch:
        with screen.working(f"TPC-H rows at scale factor {sf:g}, by tpchgen-cli"):
            rows = data.tables(sf, Path(scratch) / "rows", _tables_of(names))
            stream = _history(rows, seconds)
        with screen.working("compiling kernels, once: later starts load them"):
            _warm_up(rows, names, Path(scratch) / "warm-up")
    with vms.connect(f"embedded:{folder}") as db:
        _declare(db, rows)
        early = [name for name in names if name != late]
        with screen.working(f"creating {len(early)} views over empty tables"):
            for name in early:
                _create_view(db, name)
        with screen.working(f"loading {stream.loaded:,} rows of {len(rows)} tables"):
            for step in stream.batches(LOAD_STEP, 0, stream.loaded):
                _write(db, step)
            db.wait(db.session)
        live = LiveStream(db, stream, early, late, screen)
        live.play(seconds)
        return _compare(db, names, stream.final_tables(live.position), screen)


def _tables_of(names: Sequence[str]) -> list[str]:
    """The tables that the queries read, small ones first."""
    read = {table for name in names for table in plan_view(name, queries.text(name), TABLES).plan.sources}
    return [table for table in TABLES if table in read]


def _history(rows: dict[str, pa.Table], seconds: float) -> ChangeStream:
    """A load, and live changes for so long."""
    count = sum(table.num_rows for table in rows.values())
    others = max(RATE * seconds - (1 - LOAD_SHARE) * count, count)
    share = others / (count + others)
    return ChangeStream(
        rows,
        SEED,
        delete_share=DELETES * share,
        update_share=UPDATES * share,
        partial_share=PARTIAL_PUTS * share,
        reinsert_share=REINSERTS * share,
        load_share=LOAD_SHARE,
    )


def _warm_up(rows: dict[str, pa.Table], names: Sequence[str], folder: Path) -> None:
    """A small life of a throw-away database: whatever is compiled on first use is compiled here."""
    stream = ChangeStream({name: table.slice(0, WARM_UP_ROWS) for name, table in rows.items()}, SEED)
    with vms.connect(f"embedded:{folder}") as db:
        _declare(db, rows)
        for turn, step in enumerate(stream.batches(len(stream) // (len(names) + 1) + 1)):
            _write(db, step)
            db.wait(db.session)
            if turn < len(names):
                _create_view(db, names[turn])
        for name in names:
            db.view(name).read()


def _declare(db: vms.Database, rows: dict[str, pa.Table]) -> None:
    db.sql(ddl(TABLES[name] for name in rows))


def _create_view(db: vms.Database, name: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW {name} AS {queries.text(name)}")


def _write(db: vms.Database, step: list[TableBatch]) -> Token:
    token = Token()
    for batch in step:
        if batch.kind == "delete":
            token |= db.delete(batch.table, batch.rows)
        else:
            token |= db.put(batch.table, batch.rows, whole=batch.kind == "put")
    return token


class LiveStream:
    """Writers and readers at work. The figures may be looked at from any thread while `play` runs."""

    def __init__(self, db: vms.Database, stream: ChangeStream, early: list[str], late: str, screen: Screen) -> None:
        self.db, self._stream, self._late, self._screen = db, stream, late, screen
        self.figures = {name: ViewFigures(name) for name in sorted([*early, late])}
        #: How many changes of the stream are written, with those that were loaded.
        self.position = stream.loaded
        self.seconds = 0.0
        self._readable = set(early)
        self._newest: tuple[Token, float] = (Token(), 0.0)
        self._wrote, self._stop = Event(), Event()

    @property
    def written(self) -> int:
        return self.position - self._stream.loaded

    def play(self, seconds: float) -> None:
        """Until the time is over or the stream ends. An error of any thread ends it and is raised here."""
        begun = time.monotonic()
        pool = ThreadPoolExecutor(max_workers=len(self.figures) + 3)
        writing = pool.submit(self._write_all)
        tasks: list[Future[None]] = [
            writing,
            pool.submit(self._read_all),
            pool.submit(self._create_late, seconds / 3),
            *(pool.submit(self._watch, name) for name in sorted(self._readable)),
        ]
        try:
            with self._screen.live():
                while self.seconds < seconds and not writing.done():
                    failed = [t for t in tasks if t.done() and t.exception()]
                    if failed:
                        break
                    wait([writing], REFRESH, return_when=FIRST_COMPLETED)
                    self.seconds = time.monotonic() - begun
                    self._screen.show(self)
        finally:
            self._stop.set()
            self._wrote.set()
            pool.shutdown()
        for task in tasks:
            task.result()

    def _write_all(self) -> None:
        begun = time.monotonic()
        for step in self._stream.batches(STEP, self._stream.loaded):
            token = _write(self.db, step)
            self._newest = (token, time.monotonic())
            self._wrote.set()
            self.position = min(self.position + STEP, len(self._stream))
            ahead = begun + self.written / RATE - time.monotonic()
            if self._stop.wait(max(ahead, 0)):
                return

    def _read_all(self) -> None:
        """Takes the next write, waits until it is committed without hurrying anybody, reads every view."""
        while True:
            self._wrote.clear()
            self._wrote.wait()
            token, written = self._newest
            while not self.db.manager.covers(token):
                if self._stop.wait(0.002):
                    return
            for name in sorted(self._readable):
                figures = self.figures[name]
                figures.rows = self.db.view(name).read().num_rows
                figures.freshness.append(time.monotonic() - written)
            if self._stop.wait(REFRESH):
                return

    def _create_late(self, after: float) -> None:
        if self._stop.wait(after):
            return
        begun, before = time.monotonic(), self.written
        _create_view(self.db, self._late)
        took = time.monotonic() - begun
        self._readable.add(self._late)
        self._screen.say(
            f"view {self._late} created over existing rows in {took:.2f} s,"
            f" while {self.written - before:,} changes were written"
        )
        self._watch(self._late)

    def _watch(self, name: str) -> None:
        figures = self.figures[name]
        figures.watched = time.monotonic()
        while not self._stop.is_set():
            for _, rows in self.db.view(name).watch(timeout=0.5):
                figures.changed += rows.num_rows
                if self._stop.is_set():
                    return


def _compare(db: vms.Database, names: Sequence[str], tables: dict[str, pa.Table], screen: Screen) -> bool:
    """Every view beside DuckDB's answer over the tables as they must be after the stream."""
    exact = 0
    with screen.working("comparing every view with DuckDB, row by row"):
        for name in names:
            difference = difference_of(db, name, tables)
            exact += difference is None
            if difference is not None:
                screen.say(difference)
    screen.say(f"{exact} of {len(names)} views exact")
    return exact == len(names)


def difference_of(db: vms.Database, name: str, tables: dict[str, pa.Table]) -> str | None:
    """How the view differs from its query over `tables`; None where it does not."""
    try:
        assert_same_rows(db.view(name).read("latest"), expected(name, tables), f"view {name} is wrong")
    except AssertionError as difference:
        return str(difference)
    return None
