"""`vms hbase attach`, `status` and `detach`, and commands that bring their own View Manager."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vms.cli.main import cli
from vms.devcluster.cluster import DevCluster
from vms.store import hbase_commands as commands
from vms.store.base import Cell, Mutation
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
    printed = vms("hbase", "attach", "--print", "--before-images", name, "--jar", "hdfs:///plugin.jar").stdout
    assert f"alter '{name}', METHOD => 'table_att', 'coprocessor' => 'hdfs:///plugin.jar|vms.hbase." in printed
    assert "coprocessor" not in vms("hbase", "attach", "--print").stdout
    assert "drop the views first" in vms("hbase", "detach", fails=True).stderr
    assert f"remove_peer '{name}'" in vms("hbase", "detach", "--print").stdout
    vms("view", "drop", f"{name}_sum")
    vms("table", "drop", name)
    vms("hbase", "detach")
    assert name not in [peer["peer"] for peer in hbase.admin.run(commands.peers())]
    assert not [table for table in hbase.tables() if table.startswith(name)]


def test_the_size_of_the_log_is_that_of_its_files(
    up: DevCluster, hbase: HBaseStore, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VMS_HOME", str(tmp_path))
    monkeypatch.delenv("HBASE_CONF_DIR", raising=False)
    store = f"{up.address}&root=/{name}"

    def vms(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["--store", store, *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    def on_disk() -> dict[str, int]:
        """The log files by name; one that moves to the archive meanwhile counts once."""
        found = {}
        for folder in ("WALs", "oldWALs"):
            for path in (up.folder / "data" / "root" / folder).glob("**/[!.]*%2C*"):
                with suppress(FileNotFoundError):
                    found[path.name] = path.stat().st_size
        return found

    vms("hbase", "attach")
    vms("table", "create", name, "id BIGINT PRIMARY KEY", "v BIGINT")
    row = Mutation(b"row", (Cell(b"d:x", 1, value=bytes(300_000)),))
    hbase.mutate(name, [row])  # no View Manager runs: HBase keeps it for us
    unknown = json.loads(vms("hbase", "status", "--json"))
    assert unknown["wal"] is None and "HBASE_CONF_DIR" in unknown["wal_unknown"]
    assert unknown["logs"] and all(log["bytes"] is None and log["logs"] >= 1 for log in unknown["logs"])

    monkeypatch.setenv("HBASE_CONF_DIR", str(up.conf))
    before = on_disk()
    found = json.loads(vms("hbase", "status", "--json"))
    after = on_disk()
    assert found["wal_unknown"] == ""
    assert sum(log["bytes"] for log in found["logs"]) > 300_000
    whole = sum(server["used_bytes"] + server["archived_bytes"] for server in found["wal"])
    assert sum(before[log] for log in before.keys() & after.keys()) <= whole <= sum((before | after).values())
    assert {server["server"].partition(",")[0] for server in found["wal"]} == {"localhost"}

    monkeypatch.setenv("HBASE_CONF_DIR", str(tmp_path))
    place = f"<property><name>hbase.rootdir</name><value>file://{tmp_path}/root</value></property>"
    (tmp_path / "hbase-site.xml").write_text(f"<configuration>{place}</configuration>")
    shown = vms("hbase", "status")
    assert f"hbase.rootdir that is known here, file:{tmp_path}/root, is not that of this HBase" in shown
    assert "kept for VMS" in shown and "all of the log" not in shown
    vms("table", "drop", name)
    vms("hbase", "detach")
