"""A client that writes rows to a base table, whatever happens to HBase meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random

import pyarrow as pa

from vms.errors import StoreError
from vms.model.table import BaseTable
from vms.store.base import Mutation
from vms.store.hbase import HBaseStore
from vms.stream.encode import RowEncoder

#: Milliseconds of the first write: long ago, so that every re-read row is decided by what the store holds.
_FIRST = 1_700_000_000_000


class Loader:
    """Puts, partial puts and deletes of `keys` rows, in batches; each row's timestamps rise.

    `rows` is what the table has to hold in the end. A batch that HBase does not take is sent again: as its cells have
    their timestamps, it does not matter whether it was taken before.
    """

    def __init__(self, store: HBaseStore, table: BaseTable, keys: int, batches: int, seed: int) -> None:
        self._store, self._table, self._keys = store, table, keys
        self._encoder = RowEncoder(table, one_timestamp=True)
        self._random, self._ts = Random(seed), _FIRST
        self.batches, self.done = batches, 0
        self.rows: dict[int, list[int | None]] = {}
        self._progress = threading.Condition()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for _ in range(self.batches):
                self._send(self._batch())
                with self._progress:
                    self.done += 1
                    self._progress.notify_all()
        except BaseException as failure:
            self._failure = failure
            with self._progress:
                self._progress.notify_all()

    def _batch(self) -> list[Mutation]:
        """Some rows, each once."""
        self._ts += 2
        chosen = self._random.sample(range(self._keys), min(self._keys, 60))
        whole, part, gone = chosen[:40], [k for k in chosen[40:55] if k in self.rows], chosen[55:]
        found: list[Mutation] = []
        for keys, full in ((whole, True), (part, False)):
            columns: dict[str, list[int | None]] = {"id": list(keys), "v": [self._random.randrange(1000) for _ in keys]}
            if full:
                columns["g"] = [self._random.choice([None, *range(9)]) for _ in keys]
            for i, key in enumerate(keys):
                row = self.rows.setdefault(key, [None, None])
                row[1] = columns["v"][i]
                row[0] = columns["g"][i] if full else row[0]
            found += self._encoder.puts(_table(columns), self._ts, whole=full)
        for key in gone:
            self.rows.pop(key, None)
        return found + self._encoder.deletes(_table({"id": list(gone)}), self._ts)

    def _send(self, mutations: list[Mutation]) -> None:
        for _ in range(100):
            try:
                self._store.mutate(self._table.name, mutations)
                return
            except StoreError as error:
                last = error
        raise last

    def reached(self, share: float) -> None:
        """Wait until so much of it is written."""
        self._wait(lambda: self.done >= share * self.batches)

    def finish(self) -> pa.Table:
        """Wait for the end; what the table has to hold."""
        self._wait(lambda: self.done == self.batches)
        ids = sorted(self.rows)
        return _table({"id": ids, "g": [self.rows[i][0] for i in ids], "v": [self.rows[i][1] for i in ids]})

    def _wait(self, done: Callable[[], bool]) -> None:
        with self._progress:
            assert self._progress.wait_for(lambda: done() or self._failure is not None, 280)
        if self._failure is not None:
            raise self._failure


def _table(columns: dict[str, list[int | None]]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
