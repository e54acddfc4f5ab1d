"""What a member asks of the key-value store, done: scans, reads of single rows, writes of view rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from vms.errors import TableMissing
from vms.maintenance.messages import Loaded, LoadView, ReadRows, RowsRead, Scanned, ScanTable, WriteRows
from vms.maintenance.source_rows import with_slots
from vms.maintenance.stage_run import VIEW
from vms.manager.bulk_files import Folder, read_state
from vms.model.catalog import Catalog
from vms.model.rowkey import encode_keys
from vms.model.table import BaseTable
from vms.model.text import TextPool
from vms.plan.plan import MaintenancePlan
from vms.store.base import KVStore, Row, SnapshotStore
from vms.stream.decode import TS, DeadLetter, read_rows
from vms.viewtable.layout import ViewLayout

#: Rows of a scan between two words about its progress.
_PROGRESS_ROWS = 1_000
#: Takes what could not be decoded.
DeadLetters = Callable[[list[DeadLetter]], None]
#: Tells a timestamp that nothing written so far exceeds.
Now = Callable[[], int]


def scan_table(
    store: SnapshotStore,
    table: BaseTable,
    effect: ScanTable,
    now: Now,
    dead: DeadLetters,
    progress: Callable[[int], None] = lambda rows: None,
) -> Scanned:
    """All rows of the table; `progress` is told how many were read so far.

    Where the store tells no positions, a row may be ahead of the stream, and hides deletes. As its changes up to
    some moment are all there, the scan is a valid cut; and as nothing in it is newer than `now`, whatever the
    stream still brings from before makes the row be read again, and never goes back behind the scan.
    """
    snapshot = store.snapshot(table.name)
    try:
        rows, letters = read_rows(table, _counted(snapshot.scan(), progress))
        positions = dict(snapshot.positions)
    finally:
        snapshot.close()
    dead(letters)
    return Scanned(effect.epoch, table.name, with_slots(table, rows), positions, now())


def load_view(effect: LoadView) -> Loaded:
    """What a bulk job left for the view, without the rows that are in its table already."""
    state: dict[str, list[pa.RecordBatch]] = {}
    for name, batch in read_state(Folder(effect.folder)):
        if name != VIEW:
            state.setdefault(name, []).append(batch)
    return Loaded(effect.epoch, effect.view, state)


def _counted(rows: Iterable[tuple[bytes, Row]], progress: Callable[[int], None]) -> Iterator[tuple[bytes, Row]]:
    for number, row in enumerate(rows):
        if number % _PROGRESS_ROWS == 0:
            progress(number)
        yield row


def read_keys(
    store: KVStore, tables: Mapping[str, BaseTable], effect: ReadRows, now: Now, dead: DeadLetters
) -> RowsRead:
    """The rows of these keys as they stand in the store now.

    What is read may be ahead of the stream, and hides deletes: so every row, found or not, counts as changed at
    `now`, and whatever the stream still brings from before makes it be read again.
    """
    found: dict[str, pa.RecordBatch] = {}
    absent: dict[str, pa.RecordBatch] = {}
    for name, keys in effect.keys.items():
        table = tables[name]
        encoded = encode_keys([c.type for c in table.key_columns], [keys.column(k) for k in table.key])
        declared = {table.marker, *(table.qualifier(c.name) for c in table.value_columns)}
        store.settle(name, encoded)
        rows = list(zip(encoded, store.get_many(name, encoded)))
        there = [(key, row) for key, row in rows if row and not declared.isdisjoint(row)]
        missing = [not row or declared.isdisjoint(row) for _, row in rows]
        if there:
            read, letters = read_rows(table, there)
            dead(letters)
            stamps = pc.max_element_wise(read.column(TS), now())
            found[name] = read.set_column(read.schema.get_field_index(TS), TS, stamps)
        if any(missing):
            gone = keys.filter(pa.array(missing))
            absent[name] = gone.append_column(TS, pa.array([now()] * gone.num_rows, pa.int64()))
    return RowsRead(effect.epoch, found, absent)


def write_views(store: KVStore, catalog: Catalog, plan: MaintenancePlan, effect: WriteRows, pool: TextPool) -> None:
    """The changed view rows, with cell timestamp = epoch.

    A table that is not there any more belonged to a view that was dropped or a generation that was abandoned:
    whoever still writes to it has nothing to tell anybody.
    """
    for name, changed in effect.views.items():
        if name not in catalog.views or not (len(changed.puts) or len(changed.deletes)):
            continue
        layout = ViewLayout(plan.outputs[name], catalog.views[name].form)
        try:
            store.mutate(catalog.views[name].table(effect.generation), layout.mutations(changed, effect.epoch, pool))
        except TableMissing:
            continue
