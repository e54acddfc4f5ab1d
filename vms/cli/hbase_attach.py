"""`vms hbase attach`, `detach` and `status`: how VMS is tied to an HBase (docs/hbase.md)."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from vms.cli.main import Settings

_PRINT = click.option("--print", "only_print", is_flag=True, help="Show the commands of the HBase shell; do nothing.")


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option(
    "--before-images", "imaged", multiple=True, metavar="TABLE",
    help="Let each change of TABLE carry the rows before and after it; loads a coprocessor. May be repeated.",
)  # fmt: skip
@click.option("--jar", metavar="PATH", help="Where region servers find the plug-in; by default it is built here.")
@_PRINT
@click.pass_obj
def attach(
    settings: Settings, tables: tuple[str, ...], imaged: tuple[str, ...], jar: str | None, only_print: bool
) -> None:
    """Let HBase ship the changes of declared tables to VMS: all of them, or these.

    Adds a replication peer to HBase, once, and puts the tables into its scope. From then on CREATE TABLE attaches a
    table by itself. Nothing in HBase is restarted, and no jar is added but for --before-images. A family with a
    TTL is refused, because HBase tells nobody what expires. HBase keeps its write-ahead log until a View Manager
    has taken it: while none runs, it grows.

    \b
    Examples:
      vms --store hbase:localhost:9090 hbase attach
      vms --store hbase:localhost:9090 hbase attach orders customers
      vms --store hbase:localhost:9090 hbase attach --before-images orders --jar hdfs:///vms/vms-hbase-plugin.jar
      vms --store hbase:localhost:9090 hbase attach --print
    """
    from vms.manager.hbase_attachment import attach_commands, attachments_at
    from vms.store.hbase_address import HBaseAddress

    address = HBaseAddress.parse(settings.store)
    with attachments_at(address) as (attachments, catalog):
        wanted = [catalog.table(name.lower()) for name in tables] or list(catalog.tables.values())
        with_images = list({name.lower(): catalog.table(name.lower()) for name in imaged}.values())
        together = list({table.name: table for table in [*wanted, *with_images]}.values())
        if only_print:
            click.echo("\n".join(command.shell for command in attach_commands(address, together, with_images, jar)))
            return
        new = attachments.attach(together)
        for table in with_images:
            attachments.want_images(table, jar)
    click.echo(f"attached: {', '.join(new)}" if new else "attached; no table is new")
    if with_images:
        click.echo(f"with before-images: {', '.join(table.name for table in with_images)}")


@click.command()
@_PRINT
@click.pass_obj
def detach(settings: Settings, only_print: bool) -> None:
    """Let HBase ship nothing more to VMS, and leave nothing behind in it.

    Removes the replication peer, and the scope of the tables where it was set by `attach`. Views cannot be followed
    any more, so they have to be dropped first.

    \b
    Examples:
      vms --store hbase:localhost:9090 hbase detach
      vms --store hbase:localhost:9090 hbase detach --print
    """
    from vms.errors import UserError
    from vms.manager.hbase_attachment import attachments_at, detach_commands
    from vms.store.hbase_address import HBaseAddress

    address = HBaseAddress.parse(settings.store)
    with attachments_at(address) as (attachments, catalog):
        if only_print:
            click.echo("\n".join(command.shell for command in detach_commands(address, attachments.state())))
            return
        if catalog.views:
            raise UserError(f"view {', '.join(catalog.views)} would not be followed any more; drop the views first")
        attachments.detach()
    click.echo("detached")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON, with stable fields.")
@click.pass_obj
def status(settings: Settings, as_json: bool) -> None:
    """What is attached, who takes the changes, and how much of its log HBase still keeps for them.

    The size of the log is that of its files. It needs HBASE_CONF_DIR, the folder with HBase's hbase-site.xml, and a
    way to HBase's file system; without them files and positions are shown.

    \b
    Examples:
      vms --store hbase:localhost:9090 hbase status
      vms --store hbase:localhost:9090 hbase status --json | jq .logs
    """
    from vms.manager.hbase_attachment import attachments_at
    from vms.manager.hbase_status import hbase_status
    from vms.store.hbase_address import HBaseAddress

    with attachments_at(HBaseAddress.parse(settings.store)) as (attachments, _):
        found = hbase_status(attachments)
    if as_json:
        click.echo(json.dumps(found))
    else:
        _write(found)


def _write(found: dict[str, Any]) -> None:
    from vms.cli.output import write_records
    from vms.plan.describe import describe_size

    click.echo(f"peer      {found['peer'] or 'none: run vms hbase attach'}")
    click.echo(f"tables    {', '.join(found['tables']) or 'none'}")
    click.echo(f"managers  {', '.join(found['managers']) or 'none: HBase keeps its log until one runs'}")
    if found["wal"] is None:
        click.echo(f"log       size unknown: {found['wal_unknown']}")
    else:
        used, archived = (sum(server[name] for server in found["wal"]) for name in ("used_bytes", "archived_bytes"))
        click.echo(f"log       {describe_size(used)} in use, {describe_size(archived)} archived")
    if found["logs"]:
        click.echo("\nkept for VMS")
        write_records(found["logs"], "", sys.stdout)
    if found["wal"]:
        click.echo("\nall of the log")
        write_records(found["wal"], "", sys.stdout)
