"""Where the change stream enters the manager, and how far into it the committed epoch reaches."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from vms.maintenance.messages import Delivered
from vms.maintenance.source_rows import with_slots
from vms.manager.deadletters import DeadLetterTable
from vms.model.table import BaseTable
from vms.model.token import Token
from vms.stream.base import Source, StreamBatch
from vms.stream.decode import RowDecoder

#: Source changes taken in at once. Not higher, or an epoch could not be closed meanwhile; not lower, or the
#: fixed cost of a batch would show.
POLL_LIMIT = 20_000


class Intake:
    """Batches of the source from their delivery to their acknowledgement. `covers` may be asked by any thread."""

    def __init__(
        self,
        source: Source,
        dead: DeadLetterTable,
        gap: Callable[[StreamBatch, str], None],
    ) -> None:
        """`gap` takes note, durably, of a batch in front of which something happened that the stream does not tell."""
        self._source, self._dead, self._gap = source, dead, gap
        self._batches: dict[int, StreamBatch] = {}
        self._delivery = time.time_ns()
        self._decoders: dict[str, tuple[BaseTable, RowDecoder]] = {}
        #: The last sequence id of each region that was acknowledged, and the last one in a committed cut.
        self._acknowledged: dict[str, int] = {}
        self._committed: dict[str, int] = {}
        #: What was acknowledged and is not committed yet: region, sequence id, epoch of the cut.
        self._cut: list[tuple[str, int, int]] = []
        self._settled = False
        #: Whether the last poll left something behind.
        self.behind = False
        self.rows = 0

    def poll(self, tables: Mapping[str, BaseTable]) -> list[Delivered]:
        """What has come, decoded. Changes of tables that are not declared any more are acknowledged unseen."""
        batches = self._source.poll(POLL_LIMIT)
        self.behind = sum(b.mutations for b in batches) >= POLL_LIMIT
        found = []
        for batch in batches:
            self._delivery += 1
            self._batches[self._delivery] = batch
            table = tables.get(batch.table)
            if table is None:
                self.acknowledge(self._delivery, 0)
                continue
            gap = batch.gap
            if gap is None and table.imaged and not batch.has_images:
                gap = "a change came without the row before it; attach the table with --before-images again"
            if gap is not None:
                self._gap(batch, gap)
            rows, letters = batch.decode(self._decoder(table))
            self._dead.add(letters, batch.region)
            self.rows += rows.num_rows
            found.append(Delivered(self._delivery, batch.table, batch.region, with_slots(table, rows)))
        return found

    def _decoder(self, table: BaseTable) -> RowDecoder:
        known = self._decoders.get(table.name)
        if known is None or known[0] is not table:
            known = self._decoders[table.name] = table, RowDecoder(table)
        return known[1]

    def acknowledge(self, delivery: int, epoch: int) -> None:
        """The batch is durable with the owners of its rows, in cuts up to that of `epoch`."""
        batch = self._batches.pop(delivery, None)
        if batch is None:
            return  # from before a reset: the source delivers it again
        self._acknowledged[batch.region] = batch.last  # before the source forgets it: see `covers`
        self._cut.append((batch.region, batch.last, epoch))
        self._source.acknowledge(batch)

    def received(self) -> Token:
        """Everything acknowledged so far."""
        return Token(dict(self._acknowledged))

    def reset(self) -> None:
        """Everything that is not acknowledged shall come again."""
        self._batches.clear()
        self._source.reset()

    def settle(self, epoch: int) -> None:
        """This epoch is committed: what was acknowledged for cuts up to it is, too."""
        committed = dict(self._committed)
        for region, last, _ in (cut for cut in self._cut if cut[2] <= epoch):
            committed[region] = max(last, committed.get(region, 0))
        self._cut = [cut for cut in self._cut if cut[2] > epoch]
        self._committed, self._settled = committed, True

    def unsettle(self) -> None:
        """An epoch that another process left is under way: what that acknowledged may not be committed yet."""
        self._settled = False

    def covers(self, token: Token) -> bool:
        """Whether the committed epoch holds everything that the token names.

        A region that is read to its end (or dropped with its table) is covered as soon as all that was
        acknowledged is committed.
        """
        unread: Collection[str] = self._source.unread(token.positions.keys())
        return self._settled and all(
            self._reached(region, seq, region in unread) for region, seq in token.positions.items()
        )

    def _reached(self, region: str, seq: int, unread: bool) -> bool:
        committed = self._committed.get(region, 0)
        return committed >= seq or (self._settled and not unread and committed == self._acknowledged.get(region, 0))
