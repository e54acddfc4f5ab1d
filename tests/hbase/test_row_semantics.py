"""What the stream makes of HBase's rows equals what HBase itself reads, after every step of random histories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from random_rows import FAMILY, OTHER, SPLIT, RandomRows, declared
from wal_stream import Stream, attached

from vms.devcluster.cluster import DevCluster
from vms.maintenance.messages import ReadRows
from vms.maintenance.operations.delta_view import DeltaView
from vms.maintenance.source_rows import absent_rows, key_batch, row_changes
from vms.manager.store_io import read_keys
from vms.model.arrow import from_column
from vms.model.changes import UNDECODABLE, Changes, RowChanges
from vms.model.table import BaseTable
from vms.model.text import TextPool
from vms.store import hbase_commands as commands
from vms.store.base import Family
from vms.store.hbase import HBaseStore
from vms.stream.decode import DeadLetter, RowDecoder, read_rows

SEEDS = [1, 2, 3]
STEPS = 60


class Followed:
    """The rows of a table as the stream tells them, with the store read where it does not tell all."""

    def __init__(self, store: HBaseStore, table: BaseTable) -> None:
        self._store, self._table = store, table
        self._pool = TextPool()
        self._decoder = RowDecoder(table)
        self.view = DeltaView(table, [c.name for c in table.value_columns], self._pool)
        self.rows: Counter = Counter()
        self.letters: list[DeadLetter] = []
        #: How many rows were read again.
        self.read_again = 0

    def take(self, stream: Stream) -> None:
        """Everything that was written until now, as one epoch."""
        found = []
        for batch in stream.until_now(self._table.name, self._table.family):
            assert batch.gap is None
            rows, letters = batch.decode(self._decoder)
            self.letters += letters
            found.append(rows)
        changes = row_changes(self._table, self.view.columns, pa.concat_batches(found), self._pool)
        self._add(self.view.step(changes, self._reread(changes)))
        assert self.rows == self._counted(self.view.contents())

    def _reread(self, changes: RowChanges) -> RowChanges | None:
        at = self.view.unresolved(changes)
        if not len(at):
            return None
        self.read_again += len(at)
        name = self._table.name
        keys = {name: key_batch(self._table, changes, at, self._pool)}
        now = max(int(changes.ts.max()), 0)
        read = read_keys(self._store, {name: self._table}, ReadRows(1, keys), lambda: now, self.letters.extend)
        parts = [row_changes(self._table, self.view.columns, rows, self._pool) for rows in read.found.values()]
        parts += [absent_rows(self._table, self.view.columns, rows, self._pool) for rows in read.absent.values()]
        return RowChanges.concat(parts)

    def _add(self, changes: Changes) -> None:
        self.rows.update(self._counted(changes))
        self.rows = Counter({row: n for row, n in self.rows.items() if n})

    def _counted(self, changes: Changes) -> Counter:
        columns = [from_column(t, c, self._pool).to_pylist() for t, c in zip(self.view.types, changes.columns)]
        return _counter(zip(*columns), changes.weights.tolist())


def _counter(rows: Iterable[tuple], weights: Iterable[int]) -> Counter:
    found: Counter = Counter()
    for row, weight in zip(rows, weights):
        found[row] += weight
    return found


def scanned(store: HBaseStore, table: BaseTable) -> Counter:
    """What HBase reads."""
    rows, _ = read_rows(table, store.scan(table.name))
    good = rows.filter(pc.not_equal(rows.column("_kind"), UNDECODABLE))
    return Counter(zip(*(good.column(c.name).to_pylist() for c in table.columns)))


def at_once(parts: Sequence[Callable[[], None]]) -> None:
    """Run these in threads; what one of them raises is raised."""
    with ThreadPoolExecutor(len(parts)) as pool:
        for done in [pool.submit(part) for part in parts]:
            done.result()


@pytest.mark.parametrize("versions", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_stream_tells_what_a_scan_reads(
    up: DevCluster, hbase: HBaseStore, name: str, seed: int, versions: int
) -> None:
    table, rng = declared(name), Random(seed)
    hbase.create_table(name, {FAMILY: Family(versions=versions), OTHER: Family()}, [SPLIT], stream=True)
    changes = RandomRows(up, hbase, name, rng)
    with attached(up, hbase, [name]) as stream:
        followed = Followed(hbase, table)
        for step in range(STEPS):
            for _ in range(rng.choice([1, 1, 1, 4])):
                changes.change()
            if rng.random() < 0.02:
                hbase.admin.run(commands.flush(name))
            followed.take(stream)
            story = "\n".join(changes.story[-12:])
            assert followed.rows == scanned(hbase, table), f"seed {seed}, step {step}:\n{story}"
    assert followed.letters and followed.read_again
    changes.close()


def test_writers_at_once(up: DevCluster, hbase: HBaseStore, name: str) -> None:
    """Several clients change the same rows in the same milliseconds."""
    table = declared(name)
    hbase.create_table(name, {FAMILY: Family(versions=3), OTHER: Family()}, [SPLIT], stream=True)
    writers = [RandomRows(up, hbase, name, Random(seed)) for seed in range(4)]
    with attached(up, hbase, [name]) as stream:
        followed = Followed(hbase, table)
        for _ in range(8):
            at_once([writer.many for writer in writers])
            followed.take(stream)
            assert followed.rows == scanned(hbase, table)
    for writer in writers:
        writer.close()


def test_a_row_is_settled_when_its_writers_are_done(up: DevCluster, hbase: HBaseStore, name: str) -> None:
    """It waits for the lock of the row, and leaves nothing behind."""
    hbase.create_table(name, {FAMILY: Family(versions=3), OTHER: Family()})
    changes = RandomRows(up, hbase, name, Random(1))
    changes.many()
    before = list(hbase.scan(name))
    hbase.settle(name, [row for row, _ in before] + [b"nobody"])
    assert list(hbase.scan(name)) == before
    changes.close()
