"""What members ask of the store and of their log, done: each effect with the event that answers it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vms.maintenance.cut import Cut
from vms.maintenance.messages import (
    CutStands,
    Event,
    Loaded,
    LoadView,
    LogReceived,
    ReadRows,
    ReceivedLogged,
    RowsWritten,
    Scanned,
    ScanTable,
    WriteRows,
)
from vms.manager.deadletters import DeadLetterTable
from vms.manager.hosted import Hosted
from vms.manager.log import TransactionLog
from vms.manager.programs import Programs
from vms.manager.store_io import load_view, read_keys, scan_table, write_views
from vms.manager.trace import Traces
from vms.model.catalog import Catalog
from vms.store.base import ManagedStore


class Performer:
    """For all members here. Nothing is written before `still_here` has returned: it raises where it may not be."""

    def __init__(
        self,
        store: ManagedStore,
        log: TransactionLog | None,
        programs: Programs,
        dead: DeadLetterTable,
        traces: Traces,
        *,
        catalog: Callable[[], Catalog],
        now_ms: Callable[[], int],
        still_here: Callable[[], None],
        written: Callable[[Hosted, WriteRows], None],
    ) -> None:
        """`catalog`: that of the record; `written` is told of changed rows when they are in the view tables."""
        self._store, self._log, self._programs, self._dead, self._traces = store, log, programs, dead, traces
        self._catalog, self._now_ms, self._still_here, self._written = catalog, now_ms, still_here, written
        #: Tables that are read whole now, because views over them are new, and how many rows of each so far.
        self.scanning: dict[str, int] = {}
        #: Tables that members here read whole in one epoch: read once for all of them.
        self._scans: dict[tuple[int, str], Scanned] = {}

    def perform(self, hosted: Hosted, effect: ScanTable | LoadView | ReadRows | LogReceived | WriteRows) -> Event:
        """Do it; the answer is for the member that asked."""
        match effect:
            case ScanTable():
                return self._scan(effect)
            case LoadView():
                return self._load_view(effect)
            case ReadRows():
                with self._traces.spent(effect.epoch, "read"):
                    return read_keys(self._store, self._catalog().tables, effect, self._now_ms, self._dead.add)
            case LogReceived():
                return self._log_received(hosted.member.id, effect)
            case WriteRows():
                return self._write(hosted, effect)

    def propose(self, id_: str, cut: Cut) -> CutStands | None:
        """Make the cut of the member durable, or find the one that is; None: its log has gone on without it."""
        assert self._log is not None
        self._still_here()
        self._traces.took(cut.record.epoch, sum(rows.num_rows for rows in cut.changes.values()))
        with self._traces.spent(cut.record.epoch, "log"):
            standing = self._log.propose(id_, cut)
        return None if standing is None else CutStands(*standing)

    def epoch_over(self) -> None:
        """The epoch is committed: nobody asks for its scans any more."""
        self._scans.clear()

    def _scan(self, effect: ScanTable) -> Scanned:
        key = effect.epoch, effect.table
        if key not in self._scans:
            table = self._catalog().tables[effect.table]
            with self._traces.spent(effect.epoch, "scan"):
                try:
                    progress = partial(self.scanning.__setitem__, table.name)
                    self._scans[key] = scan_table(self._store, table, effect, self._now_ms, self._dead.add, progress)
                finally:
                    self.scanning.pop(table.name, None)
        return self._scans[key]

    def _load_view(self, effect: LoadView) -> Loaded:
        with self._traces.spent(effect.epoch, "scan"):
            return load_view(effect)

    def _log_received(self, id_: str, effect: LogReceived) -> ReceivedLogged:
        self._still_here()
        assert self._log is not None
        with self._traces.spent(effect.epoch, "log"):
            self._log.append_received(id_, effect.generation, effect.epoch, effect.batches)
        return ReceivedLogged(effect.epoch)

    def _write(self, hosted: Hosted, effect: WriteRows) -> RowsWritten:
        self._still_here()
        with self._traces.spent(effect.epoch, "write"):
            catalog = self._catalog()
            write_views(self._store, catalog, self._programs.program(catalog).plan, effect, hosted.member.store.pool)
            self._written(hosted, effect)
        return RowsWritten(effect.epoch)
