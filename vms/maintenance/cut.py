"""The cut: what one member takes into one epoch (design sections 6.2 and 8).

Everything that happens in the epoch after the cut is a pure function of the state and all members' cuts. The
transaction log lets the first cut that is proposed for (generation, member, epoch) stand and returns it to
everybody who proposes another, so there is never a second content under that name: two processes that both
believe to host a member can do no harm. For that the log must also refuse what it cannot know any more: a cut
at or below a checkpoint, whose log is removed, and one of a generation from before the log was lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgpack
import numpy as np
import pyarrow as pa

from vms.maintenance.record import Record
from vms.model.catalog import BulkLoad
from vms.model.changes import Int64

#: For each region, the highest sequence id taken in, by slot (0: none).
Watermarks = dict[str, Int64]


@dataclass(frozen=True, eq=False)
class Scan:
    """All rows of a table in the member's slots, with the position of each region up to which they reach.

    `horizon`: no delete that the scan does not show has a higher timestamp.
    """

    rows: pa.RecordBatch
    positions: Mapping[str, int]
    horizon: int


@dataclass(frozen=True, eq=False)
class Load:
    """State of one view as of a snapshot, in the member's slots: what a bulk job made of its tables.

    `described` tells what it is of.
    """

    described: BulkLoad
    state: Mapping[str, Sequence[pa.RecordBatch]]


@dataclass(frozen=True, eq=False)
class Cut:
    """Source input of one member for one epoch.

    `changes`: source rows by table in stream order; `rereads`: for rows that the stream alone cannot tell,
    what the store held when they were read (keys that were not found are in `absent`); `scans`: tables read
    whole because a view over them is new; `loads`: state of views that bulk jobs have built. `watermarks` are
    those after the cut, for the owned slots. `record` is the record under which the epoch was issued, so that the
    log alone tells how to replay it.
    """

    record: Record
    changes: Mapping[str, pa.RecordBatch] = field(default_factory=dict)
    rereads: Mapping[str, pa.RecordBatch] = field(default_factory=dict)
    absent: Mapping[str, pa.RecordBatch] = field(default_factory=dict)
    scans: Mapping[str, Scan] = field(default_factory=dict)
    watermarks: Watermarks = field(default_factory=dict)
    loads: Mapping[str, Load] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The whole state of a member at the end of the committed epoch of `record`."""

    record: Record
    watermarks: Watermarks
    state: Mapping[str, Sequence[pa.RecordBatch]]


def batch_to_bytes(batch: pa.RecordBatch) -> bytes:
    """Arrow IPC of one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def batch_from_bytes(data: bytes) -> pa.RecordBatch:
    """Inverse of `batch_to_bytes`; one batch, empty if none was written."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all().combine_chunks()
    return table.to_batches()[0] if table.num_rows else table_schema_batch(table.schema)


def table_schema_batch(schema: pa.Schema) -> pa.RecordBatch:
    """An empty batch of this schema."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def pack_watermarks(marks: Watermarks) -> dict[str, bytes]:
    return {region: slots.astype("<i8").tobytes() for region, slots in sorted(marks.items())}


def unpack_watermarks(packed: Mapping[str, bytes]) -> Watermarks:
    return {region: np.frombuffer(b, "<i8").astype(np.int64) for region, b in packed.items()}


def cut_to_bytes(cut: Cut) -> bytes:
    """The log record of a cut."""
    return msgpack.packb(
        {
            "record": cut.record.to_bytes(),
            "changes": {t: batch_to_bytes(b) for t, b in cut.changes.items()},
            "rereads": {t: batch_to_bytes(b) for t, b in cut.rereads.items()},
            "absent": {t: batch_to_bytes(b) for t, b in cut.absent.items()},
            "scans": {t: [batch_to_bytes(s.rows), dict(s.positions), s.horizon] for t, s in cut.scans.items()},
            "watermarks": pack_watermarks(cut.watermarks),
            "loads": {v: [load.described.to_dict(), pack_state(load.state)] for v, load in cut.loads.items()},
        }
    )


def cut_from_bytes(data: bytes) -> Cut:
    """Inverse of `cut_to_bytes`."""
    d = msgpack.unpackb(data)
    return Cut(
        Record.from_bytes(d["record"]),
        {t: batch_from_bytes(b) for t, b in d["changes"].items()},
        {t: batch_from_bytes(b) for t, b in d["rereads"].items()},
        {t: batch_from_bytes(b) for t, b in d["absent"].items()},
        {t: Scan(batch_from_bytes(s[0]), s[1], s[2]) for t, s in d["scans"].items()},
        unpack_watermarks(d["watermarks"]),
        {v: Load(BulkLoad.from_dict(described), unpack_state(s)) for v, (described, s) in d["loads"].items()},
    )


def pack_state(state: Mapping[str, Sequence[pa.RecordBatch]]) -> dict[str, list[bytes]]:
    return {name: [batch_to_bytes(b) for b in batches] for name, batches in state.items()}


def unpack_state(packed: Mapping[str, list[bytes]]) -> dict[str, list[pa.RecordBatch]]:
    return {name: [batch_from_bytes(b) for b in batches] for name, batches in packed.items()}
