"""`vms demo`: it ends by itself, leaves what it is asked to leave, and would say so if a view were wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import vms
from bench.demo import difference_of
from bench.tpch import data, queries
from bench.tpch.schema import TABLES, ddl
from vms.cli.main import cli


def test_the_demo_ends_with_every_view_exact(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from vms.cli.main import main; main()"]
    kept = tmp_path / "a folder"
    done = subprocess.run(
        [*command, "demo", "--sf", "0.001", "--seconds", "2", "--keep", str(kept)],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    count = len(queries.names())
    assert (done.returncode, lines[-1]) == (0, f"{count} of {count} views exact"), done.stdout + done.stderr
    assert any("created over existing rows" in line for line in lines)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a folder"]
    with vms.connect(f"embedded:{kept}") as db:
        assert db.view("q01").read("latest").num_rows > 0


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep this")
    result = CliRunner().invoke(cli, ["demo", "--keep", str(tmp_path)])
    assert result.exit_code == 1 and "not empty" in result.output
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


def test_a_wrong_view_is_told_with_its_rows(tmp_path: Path) -> None:
    """The tables that are compared with lack one row that the view has seen."""
    rows = data.tables(0.001, names=["lineitem"])["lineitem"].slice(0, 50)
    with vms.connect(f"embedded:{tmp_path / 'db'}") as db:
        db.sql(ddl([TABLES["lineitem"]]))
        db.sql(f"CREATE MATERIALIZED VIEW q01 AS {queries.text('q01')}")
        db.put("lineitem", rows)
        assert difference_of(db, "q01", {"lineitem": rows}) is None
        difference = difference_of(db, "q01", {"lineitem": rows.slice(1)})
    assert difference is not None and difference.startswith("view q01 is wrong: 1 rows too many and 1 rows missing")


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--sf", "0"], ["--sf", "x"]])
def test_options_are_checked(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["demo", *arguments])
    assert result.exit_code == 1 and arguments[0] in result.output
