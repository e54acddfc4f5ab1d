"""`vms bulk`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from vms.cli.main import cli


@pytest.fixture
def run(tmp_path: Path, spark: SparkSession):
    """Commands in one database; they use the session that runs."""

    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, ["--store", f"embedded:{tmp_path / 'db'}", *arguments])
        assert result.exit_code == code, result.output
        return result

    run("sql", "-c", "CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 5), (2, 6), (3, 5)")
    return run


def test_build_makes_a_view_that_is_followed(run) -> None:
    built = json.loads(run("bulk", "build", "counts", "SELECT n, count(*) AS c FROM t GROUP BY n", "--json").stdout)
    assert (built["view"], built["rows_read"]) == ("counts", 3)
    run("sql", "-c", "DELETE FROM t WHERE id = 1")
    rows = json.loads(run("view", "read", "counts", "--format", "json").stdout)
    assert sorted((r["n"], r["c"]) for r in rows) == [(5, 1), (6, 1)]
    assert json.loads(run("bulk", "list", "--json").stdout) == []


def test_mistakes_are_told_and_change_nothing(run) -> None:
    assert "nope" in run("bulk", "build", "v", "SELECT nope FROM t", code=1).stderr
    assert "no view v is being built" in run("bulk", "resume", "v", code=1).stderr
    assert "KEY=VALUE" in run("bulk", "build", "v", "SELECT id FROM t", "--conf", "x", code=1).stderr
    assert "no view is being built" in run("bulk", "list").stdout
