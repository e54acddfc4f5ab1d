"""`vms bench decode`: both ways find the same, and say how fast they were."""

from __future__ import annotations

import json

from click.testing import CliRunner

from vms.cli.main import cli


def test_the_kernel_and_plain_python_find_the_same() -> None:
    told = CliRunner().invoke(cli, ["bench", "decode", "--rows", "250", "--repeats", "1", "--json"])
    assert told.exit_code == 0, told.stderr
    found = [json.loads(line) for line in told.stdout.splitlines()]
    assert [(f["decode"], f["cells"], f["exact"]) for f in found] == [("fields", 2500, True), ("rows", 2500, True)]
    assert "cells_per_cpu_s" in CliRunner().invoke(cli, ["bench", "decode", "--rows", "100", "--repeats", "1"]).stdout
