"""A replication peer of the test cluster whose only member is this process."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile

from kazoo.client import KazooClient

from vms.devcluster.cluster import DevCluster
from vms.store import hbase_commands as commands
from vms.store.base import Cell, Mutation
from vms.store.hbase import HBaseStore
from vms.stream.hbase_batch import WalBatch
from vms.stream.hbase_regions import Attachment, MetaRegion, RegionGuard, read_meta
from vms.stream.hbase_source import HBaseSource

META = "hbase:meta"
#: A column that no test declares: its cells tell how far the stream has come.
FENCE = b"~fence"


class Stream:
    """The WAL of some tables, taken in as it comes."""

    def __init__(self, store: HBaseStore, source: HBaseSource) -> None:
        self._store, self.source = store, source
        self._fences = 0

    def until_now(self, table: str, family: str) -> Iterator[WalBatch]:
        """Every batch that the stream brings until all that was written before this call has come.

        Each region gets a cell of its own, and HBase ships the entries of a region in order.
        """
        self._fences += 1
        value = b"%d" % self._fences
        ts = time.time_ns() // 1_000_000
        regions = {region.id: region.start for region in self._store.regions(table)}
        column = family.encode() + b":" + FENCE
        rows = [Mutation(start + b"\x00" + FENCE, (Cell(column, ts, value=value),)) for start in regions.values()]
        self._store.mutate(table, rows)
        wanted = set(regions)
        while wanted:
            batches = self.source.poll(100_000)
            if not batches:
                assert self.source.wait(120), f"nothing came from {wanted}"
            for batch in batches:
                yield batch
                self.source.acknowledge(batch)
                if batch.table == table and self._holds(batch, value):
                    wanted.discard(batch.region)

    @staticmethod
    def _holds(batch: WalBatch, value: bytes) -> bool:
        from vms.kernels.cell_block import QUALIFIER_AT, QUALIFIER_LEN, VALUE_AT, VALUE_LEN

        cells = batch.cells
        return any(
            cells.bytes_at(QUALIFIER_AT, QUALIFIER_LEN, i) == FENCE and cells.bytes_at(VALUE_AT, VALUE_LEN, i) == value
            for i in range(cells.cells.shape[1])
        )


@contextmanager
def attached(cluster: DevCluster, store: HBaseStore, tables: Sequence[str]) -> Iterator[Stream]:
    """Follow these tables from now on."""
    name = f"p{uuid.uuid4().hex[:10]}"
    chroot = f"/peer-{name}"
    zookeeper = f"127.0.0.1:{cluster.ports.zookeeper}"

    def regions(table: str) -> dict[str, MetaRegion]:
        start = f"{table},".encode()
        return read_meta(takewhile(lambda found: found[0].startswith(start), store.scan(META, start + b",")))

    attachment = Attachment({table: Attachment.floors(regions(table)) for table in tables})
    source = HBaseSource(RegionGuard(lambda: attachment, regions, lambda table, region: None))
    client = KazooClient(zookeeper)
    client.start()
    try:
        client.ensure_path(f"{chroot}/rs")
        client.create(f"{chroot}/hbaseid", str(uuid.uuid4()).encode())
        server = f"localhost,{source.address[1]},{time.time_ns() // 1_000_000}"
        client.create(f"{chroot}/rs/{server}", b"", ephemeral=True)
        store.admin.run(
            commands.add_peer(name, f"{zookeeper}:{chroot}", list(tables), {"replication.source.ratio": "1.0"})
        )
        yield Stream(store, source)
    finally:
        store.admin.run(commands.remove_peer(name))
        source.close()
        client.delete(chroot, recursive=True)
        client.stop()
        client.close()
