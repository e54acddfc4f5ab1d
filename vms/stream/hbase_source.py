"""HBase's WAL as a source: entries that region servers deliver wait here until their owners have made them durable.

HBase keeps an entry until its call is answered, so a call is answered when all of its entries are acknowledged, and
not before. It is never held longer than half of the time that the caller waits for it: then HBase is asked to send
the entries again, which is safe, because owners drop repeats by watermark. So nothing here is durable, and nothing
has to be.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from vms.errors import VmsError
from vms.stream.base import Lag, StreamBatch
from vms.stream.hbase_batch import WalBatch, read_entries
from vms.stream.hbase_marks import MarkBoard
from vms.stream.hbase_regions import RegionGuard
from vms.stream.hbase_sink import Call, Sink, readable_cells
from vms.stream.hbase_wire import BUSY, Header

#: How long a call is held whose caller does not say how long it waits: half of what HBase waits by default.
DEFAULT_HOLD = 30.0
#: Bytes of entries that wait here. Not higher, or a backlog would fill our memory, where HBase can keep it; not
#: lower, or the batches of some region servers would not fit in.
MAX_WAITING = 512 << 20


@dataclass(eq=False)
class _Held:
    """A call that is not answered yet. `left`: how many of its batches are not acknowledged."""

    call: Call
    deadline: float
    left: int


@dataclass(eq=False)
class _Part:
    """A batch and the call that it came with."""

    batch: WalBatch
    held: _Held


class HBaseSource:
    """`Source` over what HBase delivers to one View Manager.

    In order per region: HBase has the entries of a region under way once, and sends later ones when they are
    answered; a region's batches leave here one after the other. A sender that hung may deliver old entries behind
    newer ones all the same: owners drop what is behind their watermark.
    """

    def __init__(
        self,
        guard: RegionGuard,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        hold: float = DEFAULT_HOLD,
        marks: MarkBoard | None = None,
    ) -> None:
        self._guard, self._hold, self._marks = guard, hold, marks
        self._lock = threading.Lock()
        #: Batches that wait for `poll`, and those that it gave out, by region.
        self._waiting: dict[str, deque[_Part]] = {}
        self._outstanding: dict[str, _Part] = {}
        self._held: set[_Held] = set()
        self._arrived = threading.Event()
        self._stopped = threading.Event()
        #: Entries seen, those among them that were not meant for us, and calls that HBase was asked to repeat.
        self.entries = self.ignored = self.repeated = 0
        read_entries(memoryview(b""), memoryview(b""))  # loads the kernels before HBase waits for them
        self._sink = Sink(self._deliver, host, port)
        self._timer = threading.Thread(target=self._give_up, name="vms-source", daemon=True)
        self._timer.start()

    @property
    def address(self) -> tuple[str, int]:
        """Where region servers find us."""
        return self._sink.address

    @property
    def malformed(self) -> int:
        """Connections that were closed because of what came over them."""
        return self._sink.malformed

    # --- from HBase ------------------------------------------------------------------------------------------

    def _deliver(self, call: Call, header: Header) -> None:
        """In the thread of the connection."""
        request = call.request
        batches = read_entries(request.parameter, request.block)
        unreadable = readable_cells(header)
        if unreadable is not None:
            batches = [replace(b, cells=b.cells.none(), gap=unreadable) for b in batches]
        try:
            parts = [part for part in map(self._meant, batches) if part is not None]
        except VmsError as error:
            self._busy(call, f"HBase's regions cannot be read: {error}")
            return
        with self._lock:
            self.entries += sum(b.entries for b in batches)
            self.ignored += sum(b.entries for b in batches) - sum(b.entries for b in parts)
            full = bool(self._held) and self._bytes() + sum(b.size for b in parts) > MAX_WAITING
            if parts and not full:
                hold = min(self._hold, request.timeout_ms / 2000 if request.timeout_ms else self._hold)
                held = _Held(call, time.monotonic() + hold, len(parts))
                self._held.add(held)
                for batch in parts:
                    self._waiting.setdefault(batch.region, deque()).append(_Part(batch, held))
                self._arrived.set()
        if full:
            self._busy(call, "too many entries wait")
        elif not parts:
            call.succeed()

    def _meant(self, batch: WalBatch) -> WalBatch | None:
        """The part of a batch that is meant for the views."""
        if self._marks is not None and batch.table == self._marks.table:
            self._marks.arrived(batch)
            return None
        verdict = self._guard.verdict(batch.table, batch.region)
        if verdict.gap is not None:
            return replace(batch, cells=batch.cells.none(), gap=verdict.gap)
        return batch.since(verdict.floor)

    def _busy(self, call: Call, reason: str) -> None:
        self.repeated += 1
        call.fail(BUSY, reason)

    def _give_up(self) -> None:
        """Ask for a repetition of what nobody took in time."""
        while not self._stopped.wait(min(0.25, self._hold / 4)):
            now = time.monotonic()
            with self._lock:
                late = [held for held in self._held if held.deadline <= now]
                self._held.difference_update(late)
                for region in list(self._waiting) if late else ():
                    left = deque(part for part in self._waiting.pop(region) if part.held in self._held)
                    if left:
                        self._waiting[region] = left
            for held in late:
                self._busy(held.call, "the entries are not durable yet")

    # --- the source protocol ---------------------------------------------------------------------------------

    def poll(self, limit: int) -> Sequence[WalBatch]:
        with self._lock:
            self._arrived.clear()
            batches: list[WalBatch] = []
            for region in list(self._waiting):
                if region in self._outstanding:
                    continue
                if limit <= 0:
                    self._arrived.set()
                    break
                part = self._outstanding[region] = self._next(region)
                batches.append(part.batch)
                limit -= part.batch.mutations
            return batches

    def _next(self, region: str) -> _Part:
        """The region's first batch; the region goes last."""
        queue = self._waiting.pop(region)
        part = queue.popleft()
        if queue:
            self._waiting[region] = queue
        return part

    def acknowledge(self, batch: StreamBatch) -> None:
        with self._lock:
            part = self._outstanding.get(batch.region)
            if part is None or part.batch is not batch:
                return
            del self._outstanding[batch.region]
            part.held.left -= 1
            done = part.held.left == 0 and part.held in self._held
            if done:
                self._held.discard(part.held)
            if batch.region in self._waiting:
                self._arrived.set()
        if done:
            part.held.call.succeed()

    def reset(self) -> None:
        with self._lock:
            for region, part in self._outstanding.items():
                if part.held in self._held:
                    self._waiting.setdefault(region, deque()).appendleft(part)
            self._outstanding.clear()
            self._arrived.set()

    def unread(self, regions: Collection[str]) -> Collection[str]:
        return regions  # HBase does not tell what it has not sent yet

    def lag(self) -> Lag:
        """Of what HBase has delivered; how much it still keeps, HBase itself knows."""
        with self._lock:
            batches = [part.batch for part in self._parts()]
        oldest = min((b.written_ms for b in batches), default=None)
        age = None if oldest is None else max(0, time.time_ns() // 1_000_000 - oldest)
        return Lag(sum(b.entries for b in batches), age, sum(b.size for b in batches))

    def _parts(self) -> list[_Part]:
        return [*self._outstanding.values(), *(part for queue in self._waiting.values() for part in queue)]

    def _bytes(self) -> int:
        return sum(part.batch.size for part in self._parts())

    def wait(self, timeout: float | None = None) -> bool:
        return self._arrived.wait(timeout)

    def wake(self) -> None:
        self._arrived.set()

    def close(self) -> None:
        self._stopped.set()
        self._sink.close()
        self._timer.join(5)
        with self._lock:
            self._waiting.clear()
            self._outstanding.clear()
            self._held.clear()
            self._arrived.set()
