"""Files of the log that are damaged or gone: detected, mended, told, and every view exact (design section 8)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import history
import pytest

import vms
from bench.tpch.expected import exact
from vms.manager import checkpoints
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle

SEED = 11


def work(folder: Path, start: int, stop: int, *, log: str = "local") -> vms.Database:
    """A database that has taken these steps."""
    db = vms.connect(f"embedded:{folder}", epoch_interval=0.002, log=log)
    history.define(db)
    for index in range(start, stop):
        history.take(db, history.step(SEED, index))
        if index % 5 == 4:
            db.wait(db.latest())
    db.wait(db.latest())
    return db


def check(db: vms.Database, steps: int) -> None:
    tables = {name: db.scan(name) for name in history.TABLES}
    for name, expected in history.expected_tables(SEED, steps).items():
        assert_same_rows(tables[name], expected, f"table {name}")
    for name, sql in history.VIEWS.items():
        rows = db.view(name).read("latest")
        assert_same_rows(rows, DataFusionOracle().evaluate(sql, tables), f"view {name}")
        assert_same_rows(rows, DuckOracle().evaluate(exact(sql), tables), f"view {name}, DuckDB")


@pytest.fixture
def two_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database that was closed, with two checkpoints and a log behind the older one."""
    monkeypatch.setattr(checkpoints, "CLOSING_BYTES", 0)
    for start in (0, 40):
        work(tmp_path, start, start + 40).close()
    assert len(newest_first(tmp_path)) == 2
    monkeypatch.undo()
    return tmp_path


def newest_first(folder: Path) -> list[Path]:
    return sorted((folder / "log").rglob("checkpoints/*"), reverse=True)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("harm", [flip, shorten])
def test_an_older_checkpoint_and_the_log_stand_in(
    two_checkpoints: Path, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    harm(newest_first(two_checkpoints)[0])
    with work(two_checkpoints, 80, 96) as db:
        check(db, 96)
        (warning,) = db.status()["warnings"]
        assert "does not match its checksum" in warning and warning in caplog.text
        assert db.status()["generation"] == 1


@pytest.mark.parametrize("harm", [flip, shorten])
def test_without_a_good_checkpoint_the_views_are_rebuilt(
    two_checkpoints: Path, harm: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    for path in newest_first(two_checkpoints):
        harm(path)
    with work(two_checkpoints, 80, 96) as db:
        check(db, 96)
        assert "the views are rebuilt from their tables" in db.status()["warnings"][-1]
        assert db.status()["warnings"][-1] in caplog.text
        assert db.status()["generation"] == 2
    with work(two_checkpoints, 96, 112) as db:
        check(db, 112)
        assert db.status()["generation"] == 2 and db.status()["warnings"] == []


@pytest.mark.parametrize("harm", [flip, shorten, Path.unlink])
@pytest.mark.parametrize("which", [0, -1])
def test_a_log_with_a_damaged_cut_is_not_used(tmp_path: Path, harm: Callable[[Path], None], which: int) -> None:
    """The first or the last of the cuts, with no checkpoint to stand in."""
    work(tmp_path, 0, 40).close()
    cuts = sorted((tmp_path / "log").rglob("*.cut"))
    assert len(cuts) > 4 and not newest_first(tmp_path)
    harm(cuts[which])
    with work(tmp_path, 40, 56) as db:
        check(db, 56)
        assert len(db.status()["warnings"]) == 1
        assert db.status()["generation"] == 2


def test_a_log_that_is_gone_is_not_missed(two_checkpoints: Path) -> None:
    shutil.rmtree(two_checkpoints / "log")
    with work(two_checkpoints, 80, 96) as db:
        check(db, 96)
        assert "there is no log" in db.status()["warnings"][0]
    with work(two_checkpoints, 96, 112) as db:
        check(db, 112)
        assert db.status()["generation"] == 2


def test_a_log_that_goes_while_it_is_used(tmp_path: Path) -> None:
    with work(tmp_path, 0, 20) as db:
        shutil.rmtree(tmp_path / "log")
        for index in range(20, 40):
            history.take(db, history.step(SEED, index))
        db.wait(db.latest())
        check(db, 40)
        assert db.status()["generation"] == 2 and len(db.status()["warnings"]) == 1


def test_off_and_on_again(tmp_path: Path) -> None:
    """Without a log every start rebuilds, and a log from before is never taken for a newer one."""
    generations, steps = [], 0
    for log in ("local", "off", "off", "local", "local", "off", "local"):
        with work(tmp_path, steps, steps + 16, log=log) as db:
            steps += 16
            check(db, steps)
            generations.append(db.status()["generation"])
            assert (tmp_path / "log").exists() == (log == "local")
    assert generations == [1, 2, 3, 4, 4, 5, 6]
