"""Everything that enters the core (events, messages) and leaves it (effects). Plain data.

Messages may be lost, repeated, delayed and reordered: whatever is still needed is asked for again on a tick,
and repeats are dropped by name (design section 6.4; they play the part of the thesis' local update ids, 4.3.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from vms.maintenance.cut import Cut, Watermarks
from vms.maintenance.record import Definitions, Record
from vms.model.changes import Changes

# --- messages between members ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Forward:
    """Source rows on their way from the member that received them to the owner of their slots.

    `delivery` names the source batch at its receiver. Taken only under the same generation and ring.
    """

    delivery: int
    generation: int
    ring: int
    table: str
    region: str
    rows: pa.RecordBatch


@dataclass(frozen=True)
class Durable:
    """The owner will never ask again for its part of this delivery: it is in the cut of `epoch` or an earlier one."""

    delivery: int
    generation: int
    ring: int
    epoch: int


@dataclass(frozen=True, eq=False)
class Batch:
    """One sender's whole part of one exchange edge in one epoch: rows and closing token in one.

    The name (generation, epoch, edge, sender) has one content for ever (see `vms.maintenance.cut`).
    """

    generation: int
    epoch: int
    edge: str
    rows: pa.RecordBatch | None


@dataclass(frozen=True, eq=False)
class Handoff:
    """State of the slots that move from the sender to the receiver with this epoch's ring; empty if none."""

    generation: int
    epoch: int
    state: Mapping[str, Sequence[pa.RecordBatch]] = field(default_factory=dict)
    watermarks: Watermarks = field(default_factory=dict)

    edge = "handoff"


@dataclass(frozen=True)
class Pull:
    """Send me your part of this edge again."""

    generation: int
    epoch: int
    edge: str


@dataclass(frozen=True)
class Done:
    """To the leader: every row that this member owes the epoch is in the view tables."""

    generation: int
    epoch: int
    member: str


@dataclass(frozen=True)
class Want:
    """To the leader: rows wait here for an epoch."""

    member: str


@dataclass(frozen=True)
class StateLost:
    """To the leader, from the shell that hosts the member: its log holds no state from which it could go on."""

    generation: int
    epoch: int
    member: str


Message = Forward | Durable | Batch | Handoff | Pull | Done | Want | StateLost

# --- events: what the shell tells a member -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Delivered:
    """A source batch arrived at this member: decoded source rows of one region (with `_slot`)."""

    delivery: int
    table: str
    region: str
    rows: pa.RecordBatch


@dataclass(frozen=True, eq=False)
class Received:
    """A message from another member (or from itself)."""

    sender: str
    message: Message


@dataclass(frozen=True, eq=False)
class RecordChanged:
    """The record as it stands now, with what its versions mean."""

    record: Record
    definitions: Definitions


@dataclass(frozen=True, eq=False)
class Scanned:
    """Answer to `ScanTable`: all rows of the table (with `_slot`), the position that they reach by region, and the
    highest timestamp that a delete unseen by the scan may have."""

    epoch: int
    table: str
    rows: pa.RecordBatch
    positions: Mapping[str, int]
    horizon: int


@dataclass(frozen=True, eq=False)
class Loaded:
    """Answer to `LoadView`: the state of all slots, by name as in a checkpoint."""

    epoch: int
    view: str
    state: Mapping[str, Sequence[pa.RecordBatch]]


@dataclass(frozen=True, eq=False)
class RowsRead:
    """Answer to `ReadRows`: rows found, and the keys of those that are not there, each with a `_ts` that no cell or
    delete of the row exceeds."""

    epoch: int
    found: Mapping[str, pa.RecordBatch]
    absent: Mapping[str, pa.RecordBatch]


@dataclass(frozen=True, eq=False)
class CutStands:
    """Answer to `ProposeCut`: the cut that stands for the epoch, ours or one that was there before."""

    cut: Cut
    ours: bool


@dataclass(frozen=True)
class ReceivedLogged:
    """Answer to `LogReceived`: durable."""

    epoch: int


@dataclass(frozen=True)
class RowsWritten:
    """Answer to `WriteRows`: in the view tables."""

    epoch: int


@dataclass(frozen=True)
class Tick:
    """Time has passed: ask again for what is missing."""


Event = (
    Delivered | Received | RecordChanged | Scanned | Loaded | RowsRead | CutStands | ReceivedLogged | RowsWritten | Tick
)

# --- effects: what a member asks of the shell ----------------------------------------------------------------

#: Receiver name that stands for whoever leads.
LEADER = "leader"


@dataclass(frozen=True, eq=False)
class Send:
    """Deliver the message if possible; it may be lost."""

    to: str
    message: Message


@dataclass(frozen=True)
class Acknowledge:
    """The source batch of this delivery is durable with its owners, in cuts up to `epoch`: tell the source."""

    delivery: int
    epoch: int


@dataclass(frozen=True)
class ScanTable:
    """Read the whole table and the positions it reaches; answer with `Scanned`."""

    epoch: int
    table: str


@dataclass(frozen=True)
class LoadView:
    """Read what a bulk job left for the view in this folder; answer with `Loaded`."""

    epoch: int
    view: str
    folder: str


@dataclass(frozen=True, eq=False)
class ReadRows:
    """Read these rows (key columns by table) from the store; answer with `RowsRead`."""

    epoch: int
    keys: Mapping[str, pa.RecordBatch]


@dataclass(frozen=True, eq=False)
class ProposeCut:
    """Make the cut durable unless one stands for this epoch already; answer with `CutStands`."""

    cut: Cut


@dataclass(frozen=True, eq=False)
class LogReceived:
    """Make what other members sent for this epoch durable; answer with `ReceivedLogged`."""

    generation: int
    epoch: int
    batches: Sequence[tuple[str, Batch | Handoff]]


@dataclass(frozen=True, eq=False)
class ViewRows:
    """Changed rows of one view in one epoch: rows to put, and rows (their last content) to delete."""

    puts: Changes
    deletes: Changes


@dataclass(frozen=True, eq=False)
class WriteRows:
    """Write each view's changed rows with cell timestamp = epoch; answer with `RowsWritten`."""

    epoch: int
    generation: int
    views: Mapping[str, ViewRows]


@dataclass(frozen=True)
class Committed:
    """The member has seen the commit of this epoch and stands at its end: the moment for a checkpoint."""

    epoch: int


@dataclass(frozen=True)
class Superseded:
    """This copy of the member has fallen behind what stands in the log: load it again, or stop hosting it."""

    reason: str


Effect = (
    Send | Acknowledge | ScanTable | LoadView | ReadRows | ProposeCut | LogReceived | WriteRows | Committed | Superseded
)
