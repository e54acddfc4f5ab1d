"""`vms hbase admin`: what an administrator does to HBase, through the Java helper or as lines of the HBase shell."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from vms.errors import UserError
from vms.store import hbase_commands as commands
from vms.store.hbase_commands import Command

if TYPE_CHECKING:
    from vms.cli.main import Settings


@click.group()
def admin() -> None:
    """Tables, regions, peers and snapshots of an HBase.

    The HBase is that of --store hbase:HOST:PORT (its ZooKeeper: ?zookeeper=HOST:PORT, or HBASE_CONF_DIR). With
    --print nothing is done: the same is written as commands of the HBase shell, to read or to run there.

    \b
    Examples:
      vms --store hbase:localhost:9090 hbase admin describe orders
      vms --store hbase:localhost:9090 hbase admin set-family orders d VERSIONS=3 --print
      vms --store hbase:localhost:9090 hbase admin split orders 'm\\x00'
    """


def _command(build: Callable[..., Command]) -> Callable[..., None]:
    """A subcommand whose function makes the Command; here it is printed or done."""

    @admin.command(name=build.__name__.rstrip("_").replace("_", "-"), help=build.__doc__)
    @click.option("--print", "only_print", is_flag=True, help="Show the commands of the HBase shell; do nothing.")
    @click.pass_obj
    @wraps(build)
    def run(settings: Settings, /, only_print: bool, **arguments: Any) -> None:
        command = build(**arguments)
        if only_print:
            click.echo(command.shell)
        else:
            _show(_run(settings.store, command))

    return run


def _run(store: str, command: Command) -> Any:
    from vms.store.hbase_address import HBaseAddress
    from vms.store.hbase_admin import HBaseAdmin

    helper = HBaseAdmin(HBaseAddress.parse(store), say=lambda text: click.echo(text, err=True))
    try:
        return helper.run(command)
    finally:
        helper.close()


def _show(answer: Any) -> None:
    """A table for rows, nothing for an operation that only succeeds."""
    if isinstance(answer, dict):
        answer = [{"family": family, **settings} for family, settings in answer.items()]
    if isinstance(answer, list) and answer and isinstance(answer[0], dict):
        import pyarrow as pa

        from vms.cli.output import write_table

        names = list(dict.fromkeys(name for row in answer for name in row))
        columns = {name: pa.array([_text(row.get(name)) for row in answer], pa.string()) for name in names}
        write_table(pa.table(columns), sys.stdout)
    elif isinstance(answer, list):
        click.echo("\n".join(map(str, answer)))
    elif answer is not None:
        click.echo(_text(answer))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _key(text: str) -> bytes:
    """A row key as it is typed: bytes that cannot be are \\xNN."""
    return codecs.escape_decode(text.encode())[0]  # type: ignore[attr-defined]


def _assignments(texts: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise UserError(f"{name!r} is no setting; write NAME=VALUE, for example VERSIONS=3")
    return {name: value for name, _, value in pairs}


@_command
@click.argument("table")
def describe(table: str) -> Command:
    """The families of TABLE and their settings."""
    return commands.describe_table(table)


@_command
@click.argument("table")
@click.argument("family")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
def set_family(table: str, family: str, settings: tuple[str, ...]) -> Command:
    """Change settings of a FAMILY (VERSIONS, TTL, KEEP_DELETED_CELLS, REPLICATION_SCOPE, ...); the others stay."""
    return commands.alter_family(table, family, _assignments(settings))


@_command
@click.argument("table")
@click.argument("key")
def split(table: str, key: str) -> Command:
    """Split the region of TABLE that holds KEY there; bytes that cannot be typed are \\xNN."""
    return commands.split(table, _key(key))


@_command
@click.argument("region")
@click.argument("server")
def move(region: str, server: str) -> Command:
    """Move REGION (its encoded name) to SERVER (HOST,PORT,STARTCODE)."""
    return commands.move(region, server)


@_command
@click.argument("table")
def regions(table: str) -> Command:
    """The regions of TABLE and where they are; keys in base64."""
    return commands.regions(table)


@_command
def servers() -> Command:
    """The region servers that are alive."""
    return commands.servers()


@_command
@click.argument("table")
def flush(table: str) -> Command:
    """Write what TABLE has in memory to files."""
    return commands.flush(table)


@_command
@click.argument("table")
def compact(table: str) -> Command:
    """Start a major compaction of TABLE."""
    return commands.compact(table)


@_command
def peers() -> Command:
    """The replication peers."""
    return commands.peers()


@_command
@click.argument("peer")
@click.argument("cluster_key")
@click.argument("tables", nargs=-1, required=True)
@click.option("--serial/--no-serial", default=True, show_default=True, help="In order, through moves of regions.")
@click.option("--setting", "settings", multiple=True, metavar="NAME=VALUE", help="Of the peer; may be repeated.")
def add_peer(peer: str, cluster_key: str, tables: tuple[str, ...], serial: bool, settings: tuple[str, ...]) -> Command:
    """Ship the changes of TABLES to the cluster at CLUSTER_KEY (HOST:PORT:/ZNODE) under the name PEER."""
    return commands.add_peer(peer, cluster_key, tables, _assignments(settings), serial=serial)


@_command
@click.argument("peer")
def remove_peer(peer: str) -> Command:
    """Remove a PEER; nothing is shipped to it any more."""
    return commands.remove_peer(peer)


@_command
@click.argument("table")
@click.argument("snapshot_name", metavar="NAME")
def snapshot(table: str, snapshot_name: str) -> Command:
    """Take a snapshot of TABLE under this NAME."""
    return commands.take_snapshot(table, snapshot_name)


@_command
def snapshots() -> Command:
    """The snapshots."""
    return commands.snapshots()


@_command
@click.argument("snapshot_name", metavar="NAME")
@click.argument("table")
def clone_snapshot(snapshot_name: str, table: str) -> Command:
    """Make a new TABLE from a snapshot."""
    return commands.clone_snapshot(snapshot_name, table)


@_command
@click.argument("snapshot_name", metavar="NAME")
def delete_snapshot(snapshot_name: str) -> Command:
    """Delete a snapshot."""
    return commands.delete_snapshot(snapshot_name)
