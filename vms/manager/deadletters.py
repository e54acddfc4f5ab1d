"""The dead-letter table: what could not be decoded, with its position and the reason (design section 3.3)."""

from __future__ import annotations

import contextlib

import pyarrow as pa

from vms.errors import AlreadyExists
from vms.store.base import Cell, Family, KVStore, Mutation
from vms.stream.decode import DeadLetter


class DeadLetterTable:
    """An ordinary table of the store; a letter that comes twice (redelivery, re-read) is one row."""

    NAME = "vms.dead_letters"
    _FIELDS = ("table", "row", "column", "region", "seq", "ts", "value", "reason")

    def __init__(self, store: KVStore) -> None:
        self._store = store
        if self.NAME not in store.tables():
            with contextlib.suppress(AlreadyExists):
                store.create_table(self.NAME, {"d": Family()})

    def add(self, letters: list[DeadLetter], region: str = "") -> None:
        mutations = []
        for letter in letters:
            key = b"\0".join([letter.table.encode(), letter.column.encode(), str(letter.ts).encode(), letter.row])
            fields = (
                letter.table.encode(),
                letter.row,
                letter.column.encode(),
                region.encode(),
                str(letter.seq).encode(),
                str(letter.ts).encode(),
                letter.value,
                letter.reason.encode(),
            )
            cells = (Cell(f"d:{name}".encode(), 1, value=value) for name, value in zip(self._FIELDS, fields))
            mutations.append(Mutation(key, tuple(cells)))
        if mutations:
            self._store.mutate(self.NAME, mutations)

    def read(self) -> pa.Table:
        """All letters; row keys and values as bytes."""
        rows = [row for _, row in self._store.scan(self.NAME)]
        columns = {}
        for name in self._FIELDS:
            values = [row[f"d:{name}".encode()].value for row in rows]
            binary = name in ("row", "value")
            columns[name] = pa.array(
                values if binary else [v.decode() for v in values], pa.binary() if binary else pa.string()
            )
        return pa.table(columns)

    def counts(self) -> dict[str, int]:
        """Letters by base table."""
        found: dict[str, int] = {}
        for key, _ in self._store.scan(self.NAME):
            table = key.split(b"\0", 1)[0].decode()
            found[table] = found.get(table, 0) + 1
        return found
