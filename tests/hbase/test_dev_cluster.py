"""The development cluster: `vms hbase dev`."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import happybase
import pytest

from vms.devcluster.cluster import DevCluster
from vms.devcluster.process import Process
from vms.errors import StoreUnavailable, UserError
from vms.store.java import java

_MAIN = "from vms.cli.main import main; main()"


def vms(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _MAIN, *arguments], capture_output=True, text=True)


def pids(cluster: DevCluster) -> dict[str, int | None]:
    return {process.name: process.pid() for process in cluster.processes()}


def test_a_second_up_starts_nothing(up: DevCluster) -> None:
    before = pids(up)
    done = vms("hbase", "dev", "up", "--folder", str(up.folder))
    assert done.returncode == 0, done.stderr
    assert str(up.address) in done.stdout
    assert pids(up) == before and None not in before.values()


def test_status_says_what_runs(up: DevCluster) -> None:
    done = vms("hbase", "dev", "status", "--folder", str(up.folder))
    assert done.returncode == 0, done.stderr
    for process in up.processes():
        assert process.name in done.stdout
        assert str(process.pid()) in done.stdout


def test_logs_of_one_process(up: DevCluster) -> None:
    done = vms("hbase", "dev", "logs", "master", "-n", "3", "--folder", str(up.folder))
    assert done.returncode == 0
    assert str(up.process("master").log) in done.stdout.splitlines()[0]
    unknown = vms("hbase", "dev", "logs", "mister", "--folder", str(up.folder))
    assert unknown.returncode == 1 and "regionserver-2" in unknown.stderr


def test_a_killed_region_server_loses_nothing(up: DevCluster, name: str) -> None:
    connection = happybase.Connection("127.0.0.1", up.ports.thrift, timeout=120_000)
    connection.create_table(name, {"d": {}})
    with connection.table(name).batch() as batch:
        for number in range(1000):
            batch.put(b"%04d" % number, {b"d:v": b"%d" % number})
    for server in ("regionserver-1", "regionserver-2"):
        up.kill(server)
        assert up.process(server).pid() is None
        up.start(server)
    assert len(list(connection.table(name).scan())) == 1000
    connection.disable_table(name)
    connection.delete_table(name)
    connection.close()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        cluster = DevCluster(tmp_path / "c")
        with pytest.raises(UserError, match=f"port {port} for zookeeper is taken"):
            cluster.up(1, port)
        assert set(pids(cluster).values()) == {None}


def test_a_process_that_dies_is_told_with_its_log(tmp_path: Path) -> None:
    process = Process(tmp_path, "master", 1, "64m", ("no.such.Class",), "never")
    process.start(java(), str(tmp_path))
    with pytest.raises(StoreUnavailable, match=r"master has died; its log is .*master\.log\n.*no\.such\.Class"):
        while not process.is_ready():
            process.check_alive()


def test_a_folder_without_a_cluster_is_a_clear_error(tmp_path: Path) -> None:
    for command in ("status", "logs"):
        done = vms("hbase", "dev", command, "--folder", str(tmp_path))
        assert done.returncode == 1
        assert "start one with vms hbase dev up" in done.stderr
