"""kill -9 loses nothing and doubles nothing (design sections 3 and 8).

A process takes the steps of a seeded history (`history.py`) and is killed; another goes on in the same folder.
After many deaths the tables hold exactly the steps that were told to be taken, every view equals its SQL
evaluated from scratch by two engines, and no view had to be rebuilt for that.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
from pathlib import Path

import history
import killing
import pytest

import vms
from bench.tpch.expected import exact
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle

#: Steps that a process takes if it does not die before, and that the last one takes in peace.
_STEPS, _LAST_STEPS = 400, 16
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["vms.manager.database", "vms.manager.statements", "vms.testing.memory_store"])


class Life:
    """One folder, and the processes that work in it one after the other."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed, self.taken = folder, seed, 0

    def run(
        self, point: str | None = None, occurrence: int = 1, *, kill_after: int | None = None, steps: int = _STEPS
    ) -> int | None:
        """A process until it ends or dies, at the point or after so many steps; its exit code."""
        heard, tells = _context.Pipe(duplex=False)
        arguments = (str(self.folder), self.seed, self.taken, self.taken + steps, point, occurrence, tells)
        process = _context.Process(target=killing.run, args=arguments)
        process.start()
        tells.close()
        first = self.taken
        try:
            while True:
                self.taken = heard.recv() + 1
                if kill_after is not None and self.taken - first >= kill_after:
                    process.kill()
        except EOFError:
            process.join()
        return process.exitcode

    def check(self) -> None:
        """Everything is as it must be. The step under which the last process died is taken again first."""
        assert self.run(steps=_LAST_STEPS) == 0
        with vms.connect(f"embedded:{self.folder}") as db:
            db.wait(db.latest())
            tables = {name: db.scan(name) for name in history.TABLES}
            for name, expected in history.expected_tables(self.seed, self.taken).items():
                assert_same_rows(tables[name], expected, f"seed {self.seed}, table {name}")
            for name, sql in {v: d.sql for v, d in db.catalog.views.items()}.items():
                rows = db.view(name).read("latest")
                assert_same_rows(rows, DataFusionOracle().evaluate(sql, tables), f"seed {self.seed}, view {name}")
                duck = DuckOracle().evaluate(exact(sql), tables)
                assert_same_rows(rows, duck, f"seed {self.seed}, view {name}, DuckDB")
            assert set(history.VIEWS) <= set(db.catalog.views)
            assert db.status()["generation"] == 1, f"the views were rebuilt: {db.runtime.warnings}"


def _points() -> list[str]:
    """Every point, in an order that brings different ones together."""
    points = list(killing.POINTS)
    random.Random(0).shuffle(points)
    return points


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_exact_points(tmp_path: Path, seed: int) -> None:
    life, random_ = Life(tmp_path, seed), random.Random(seed)
    for point in _points()[seed::3]:
        code = life.run(point, random_.randint(1, 3))
        assert code == -signal.SIGKILL, f"the process ended with {code}, but should have died when {point}"
    life.check()


@pytest.mark.parametrize("seed", range(3, 6))
def test_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    life, random_ = Life(tmp_path, seed), random.Random(seed)
    for _ in range(6):
        assert life.run(kill_after=random_.randint(1, 60)) == -signal.SIGKILL
    life.check()
