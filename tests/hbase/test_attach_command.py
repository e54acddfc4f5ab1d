"""`vms hbase attach`, `status` and `detach`, and commands that bring their own View Manager."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vms.cli.main import cli
from vms.devcluster.cluster import DevCluster
from vms.store import hbase_commands as commands
from vms.store.hbase import HBaseStore


def test_from_attach_to_detach(
    up: DevCluster, hbase: HBaseStore, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VMS_HOME", str(tmp_path))
    store = f"{up.address}&root=/{name}"

    def vms(*arguments: str, fails: bool = False) -> Result:
        result = CliRunner().invoke(cli, ["--store", store, *arguments])
        assert result.exit_code == int(fails), result.output
        return result

    assert f"add_peer '{name}'" in vms("hbase", "attach", "--print").stdout
    assert json.loads(vms("hbase", "status", "--json").stdout)["peer"] == ""
    vms("hbase", "attach")
    vms("table", "create", name, "id BIGINT PRIMARY KEY", "v BIGINT")
    vms("sql", "-c", f"CREATE MATERIALIZED VIEW {name}_sum AS SELECT sum(v) AS v FROM {name}")
    answer = vms("sql", "--format", "csv", "-c", f"INSERT INTO {name} VALUES (1, 2), (3, 4); SELECT * FROM {name}_sum")
    assert answer.stdout.splitlines() == ["v", "6"]
    found = json.loads(vms("hbase", "status", "--json").stdout)
    assert (found["peer"], found["tables"], found["managers"]) == (name, [name], [])
    assert len(found["logs"]) >= 1 and all(log["logs"] >= 1 for log in found["logs"])
    state = json.loads(vms("status", "--json").stdout)
    assert state["attached"] == [name] and state["views"][f"{name}_sum"]["rows"] == 1
    assert "drop the views first" in vms("hbase", "detach", fails=True).stderr
    assert f"remove_peer '{name}'" in vms("hbase", "detach", "--print").stdout
    vms("view", "drop", f"{name}_sum")
    vms("table", "drop", name)
    vms("hbase", "detach")
    assert name not in [peer["peer"] for peer in hbase.admin.run(commands.peers())]
    assert not [table for table in hbase.tables() if table.startswith(name)]
