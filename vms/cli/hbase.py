"""`vms hbase`: what concerns HBase alone. The development cluster is in hbase_dev.py."""

from __future__ import annotations

import click

from vms.cli.hbase_admin import admin
from vms.cli.hbase_dev import dev


@click.group()
def hbase() -> None:
    """HBase: a cluster for development, and what VMS needs of yours."""


for _command in (dev, admin):
    hbase.add_command(_command)
