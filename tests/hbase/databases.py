"""A VMS of its own on the cluster, for one test: its views are compared with DuckDB over a scan of the base tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import vms
from vms.devcluster.cluster import DevCluster
from vms.manager.database import Database
from vms.manager.hbase_attachment import Attachments
from vms.ring.session import Session
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DuckOracle


@contextmanager
def vms_of_its_own(cluster: DevCluster, hbase: HBaseStore, name: str) -> Iterator[HBaseAddress]:
    """The address of a VMS that is attached to HBase; all that it made is gone afterwards."""
    address = cluster.address._replace(root=f"/{name}")
    before = set(hbase.tables())
    with closing(Session(address.zookeeper_hosts, address.root)) as session:
        attachments = Attachments(session, hbase, address)
        attachments.attach([])
        try:
            yield address
        finally:
            attachments.detach()
            for table in set(hbase.tables()) - before:
                if table not in ("vms.meta", "vms.dead_letters"):
                    hbase.drop_table(table)
            session.client.delete("/", recursive=True)


def opened(address: HBaseAddress, folder: Path, **options: object) -> Database:
    """Its View Manager in this process."""
    return vms.connect(str(address), manage=True, folder=folder, **options)  # type: ignore[arg-type]


def check(db: Database, view: str, level: str = "latest") -> None:
    """The view equals its SQL over its tables as a scan finds them."""
    definition = db.view(view)
    read = definition.read(level)
    tables = {table: db.scan(table) for table in db.plan(view).plan.sources}
    assert_same_rows(read, DuckOracle().evaluate(definition.definition.sql, tables), view)
