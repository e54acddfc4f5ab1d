"""`vms hbase`: what concerns HBase alone. Its commands are in hbase_*.py."""

from __future__ import annotations

import click

from vms.cli.hbase_admin import admin
from vms.cli.hbase_attach import attach, detach, status
from vms.cli.hbase_dev import dev


@click.group()
def hbase() -> None:
    """HBase: a cluster for development, and what VMS needs of yours."""


for _command in (dev, attach, detach, status, admin):
    hbase.add_command(_command)
