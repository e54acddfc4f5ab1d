"""`vms hbase dev`: a real HBase on this machine, to develop and to test with."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from vms.devcluster.cluster import DevCluster
    from vms.devcluster.process import Process

_folder = click.option(
    "--folder",
    envvar="VMS_HBASE_DEV",
    default="./vms-hbase",
    show_default=True,
    metavar="F",
    help="Where the cluster lives: configuration, data, logs.",
)


@click.group()
def dev() -> None:
    """A real HBase on this machine, for development and tests.

    ZooKeeper, a master, region servers and the Thrift gateway, each a process of its own, on the loopback
    interface only, in one folder. Java 17 and Maven are installed through apt-get where they are missing and
    that is possible.

    \b
    Examples:
      vms hbase dev up --region-servers 2
      vms hbase dev status
      vms hbase dev logs regionserver-1
      vms hbase dev down
    """


@dev.command()
@click.option("--region-servers", type=click.IntRange(1, 64), help="How many.  [default: as before; 1 at first]")
@click.option("--port-base", type=click.IntRange(1024, 65_000), help="The first of its ports.  [default: 22180]")
@_folder
def up(region_servers: int | None, port_base: int | None, folder: str) -> None:
    """Start the cluster, or what of it does not run.

    The first time fetches HBase through Maven (120 MB). A start takes half a minute, a second `up` a second.
    """
    cluster = _cluster(folder)
    cluster.up(region_servers, port_base, say=_say)
    click.echo(f"HBase is up in {cluster.folder}")
    _where(cluster)


@dev.command()
@click.option("--now", is_flag=True, help="Kill instead of a clean end; the next start replays the logs.")
@click.option("--delete", is_flag=True, help="Remove the folder with all data afterwards.")
@_folder
def down(now: bool, delete: bool, folder: str) -> None:
    """Stop the cluster; its data stays."""
    cluster = _cluster(folder)
    if not cluster.exists:
        click.echo(f"there is no cluster in {cluster.folder}")
        return
    cluster.down(now=now, delete=delete, say=_say)
    click.echo("HBase is down" + (", its folder is removed" if delete else ""))


@dev.command()
@_folder
def status(folder: str) -> None:
    """Which processes run, and how to reach the cluster. Exit code 1 if it is not up."""
    import pyarrow as pa

    from vms.cli.output import write_table

    cluster = _cluster(folder)
    rows = [_status_row(process) for process in cluster.processes()]
    write_table(pa.Table.from_pylist(rows), sys.stdout)
    if not cluster.is_up():
        raise click.ClickException(f"the cluster in {cluster.folder} is not up; see vms hbase dev up")
    _where(cluster)


@dev.command()
@click.argument("process", required=False)
@click.option("-n", "--lines", default=20, show_default=True, help="How many lines of each.")
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows; for one process.")
@_folder
def logs(process: str | None, lines: int, follow: bool, folder: str) -> None:
    """The last lines of the logs: of PROCESS (master, regionserver-1, thrift, zookeeper), or of all."""
    cluster = _cluster(folder)
    if follow and process is None:
        raise click.UsageError("name one process to follow")
    for one in [cluster.process(process)] if process else cluster.processes():
        click.echo(f"==> {one.log} <==")
        click.echo("\n".join(one.tail(lines)))
        if follow:
            _follow(one)


def _follow(process: Process) -> None:
    with process.log.open(errors="replace") as log:
        log.seek(0, 2)
        while True:
            line = log.readline()
            if line:
                click.echo(line, nl=False)
            else:
                time.sleep(0.2)


def _status_row(process: Process) -> dict[str, object]:
    pid = process.pid()
    state = "stopped" if pid is None else "running"
    return {"process": process.name, "state": state, "pid": pid, "port": process.port, "MB": process.memory_mb()}


def _where(cluster: DevCluster) -> None:
    click.echo(f"  VMS          --store {cluster.address}")
    click.echo(f"  Thrift       127.0.0.1:{cluster.ports.thrift}")
    click.echo(f"  ZooKeeper    127.0.0.1:{cluster.ports.zookeeper}")
    click.echo(f"  other tools  HBASE_CONF_DIR={cluster.conf}")


def _cluster(folder: str) -> DevCluster:
    from vms.devcluster.cluster import DevCluster

    return DevCluster(folder)


def _say(message: str) -> None:
    click.echo(message, err=True)
