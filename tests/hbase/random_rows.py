"""Random changes of a few rows of an HBase table, by every way that HBase has, from a seed."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

import happybase

from vms.devcluster.cluster import DevCluster
from vms.errors import VmsError
from vms.model.table import BaseTable, TableColumn
from vms.model.types import BIGINT, BOOLEAN, VARCHAR, decimal
from vms.store.hbase import HBaseStore
from vms.store.hbase_commands import Command

#: Family `d` is declared, with four of its columns; `x` is not.
FAMILY, OTHER = "d", "x"


def declared(name: str) -> BaseTable:
    return BaseTable(
        name,
        (
            TableColumn("k", VARCHAR, nullable=False),
            TableColumn("n", BIGINT),
            TableColumn("s", VARCHAR),
            TableColumn("p", decimal(9, 2)),
            TableColumn("b", BOOLEAN),
        ),
        key=("k",),
        family=FAMILY,
    )


#: Row keys; the last one is no text.
KEYS = [b"a", b"b", b"m", b"n", b"z", b"\xff\xfe"]
#: Where the table is split.
SPLIT = b"m"
_NUMBERS = [n.to_bytes(8, "big", signed=True) for n in (0, 1, -5, 2**40)]
_TEXTS = [b"", b"x", "ü".encode()]
_DECIMALS = [b"\x00\x00\x00\x02\x00", b"\x00\x00\x00\x02\x04\xd2"]
#: Good and bad values by column; those of `u` and of family `x` are nobody's business.
_VALUES = {
    b"d:n": (_NUMBERS, [b"123"]),
    b"d:s": (_TEXTS, [b"\xff"]),
    b"d:p": (_DECIMALS, [b"\x01"]),
    b"d:b": ([b"\xff", b"\x00"], [b""]),
    b"d:_0": ([b""], [b""]),
    b"d:u": ([b"1", b"2"], [b"3"]),
    b"x:n": ([b"1"], [b"2"]),
}
_COLUMNS = list(_VALUES)
#: Long ago, so that the server's own time is above; few, so that they meet.
_TIMES = [1_000_000 + i for i in range(6)]


class RandomRows:
    """Changes a table. What HBase refuses has no effect."""

    def __init__(self, cluster: DevCluster, store: HBaseStore, table: str, rng: Random, *, one_version: bool = True):
        self._store, self._table, self._rng = store, table, rng
        self._one_version = one_version
        self._connection = happybase.Connection("127.0.0.1", cluster.ports.thrift)
        self._happybase = self._connection.table(table)
        #: What was done, for whoever reads about a failure.
        self.story: list[str] = []

    def close(self) -> None:
        self._connection.close()

    def change(self) -> None:
        """One change of one to three rows."""
        ways = [self._put, self._put, self._batch, self._batch, self._delete, self._java, self._java, self._java]
        way = self._rng.choice([*ways, self._check, self._count])
        try:
            way()
        except VmsError as error:
            self.story.append(f"  refused: {error}")

    def many(self) -> None:
        """Thirty changes through happybase, the fastest way."""
        for _ in range(30):
            self._rng.choice([self._put, self._batch, self._delete, self._count])()

    def _say(self, text: str) -> None:
        self.story.append(text)

    def _time(self, server: float = 0.3) -> int | None:
        return None if self._rng.random() < server else self._rng.choice(_TIMES)

    def _value(self, column: bytes) -> bytes:
        good, bad = _VALUES[column]
        return self._rng.choice(bad if self._rng.random() < 0.06 else good)

    def _some(self, columns: list[bytes] = _COLUMNS) -> list[bytes]:
        return self._rng.sample(columns, self._rng.randint(1, 4))

    # --- through happybase -------------------------------------------------------------------------------------

    def _put(self) -> None:
        row, ts = self._rng.choice(KEYS), self._time()
        cells = {column: self._value(column) for column in self._some()}
        self._say(f"happybase put {row!r} {cells} at {ts}")
        self._happybase.put(row, cells, timestamp=ts)

    def _batch(self) -> None:
        """Several rows in one call; rows of one region come in one entry of the WAL."""
        ts = self._time()
        with self._happybase.batch(timestamp=ts) as batch:
            for row in self._rng.sample(KEYS, self._rng.randint(2, 4)):
                if self._rng.random() < 0.2:
                    self._say(f"happybase batch delete {row!r} at {ts}")
                    batch.delete(row)
                else:
                    cells = {column: self._value(column) for column in self._some()}
                    self._say(f"happybase batch put {row!r} {cells} at {ts}")
                    batch.put(row, cells)

    def _delete(self) -> None:
        row, ts = self._rng.choice(KEYS), self._time()
        columns = self._some() if self._rng.random() < 0.5 else None
        self._say(f"happybase delete {row!r} {columns} at {ts}")
        self._happybase.delete(row, columns=columns, timestamp=ts)

    def _count(self) -> None:
        """An increment by way of the gateway; it fails where the cell is no number."""
        row = self._rng.choice(KEYS[:-1])
        self._say(f"counter_inc {row!r}")
        try:
            self._happybase.counter_inc(row, b"d:n", 3)
        except Exception as error:  # the gateway's own
            self._say(f"  refused: {type(error).__name__}")

    # --- through the Java client -------------------------------------------------------------------------------

    def _cell(self, kinds: list[str]) -> list[Any]:
        kind, ts = self._rng.choice(kinds), self._time()
        column = self._rng.choice(_COLUMNS)
        value = b""
        if kind == "put":
            value = self._value(column)
        elif kind == "increment":
            column, value, ts = b"d:n", None, None
        elif kind == "append":
            column, value, ts = b"d:s", self._rng.choice(_TEXTS), None
        elif kind.startswith("delete_family"):
            column = self._rng.choice([b"d:", b"d:", b"x:"])
            if kind == "delete_family_version":
                ts = self._rng.choice(_TIMES)
        shown = self._rng.randint(-2, 5) if value is None else base64.b64encode(value).decode()
        return [kind, base64.b64encode(column).decode(), ts, shown]

    def _kinds(self) -> list[str]:
        kinds = ["put", "put", "put", "delete_family", "delete_column"]
        if self._one_version:
            kinds += ["delete_version", "delete_version", "delete_family_version"]
        return kinds

    def _java(self) -> None:
        """Puts and deletes of a row together, or an increment or append; several rows, the same one twice too."""
        rows = []
        for _ in range(self._rng.randint(1, 3)):
            row = self._rng.choice(KEYS)
            if self._rng.random() < 0.2:
                cells = [self._cell(["increment", "append"])]
            else:
                kinds = self._kinds()
                cells = [self._cell(kinds) for _ in range(self._rng.randint(1, 3))]
            rows.append({"row": base64.b64encode(row).decode(), "cells": cells})
        self._run({"do": "rows.mutate", "table": self._table, "rows": rows})

    def _check(self) -> None:
        """checkAndMutate with all that a row may get."""
        row, column = self._rng.choice(KEYS), self._rng.choice(_COLUMNS)
        value = self._rng.choice([None, self._value(column)])
        cells = [self._cell(self._kinds()) for _ in range(self._rng.randint(1, 3))]
        self._run(
            {
                "do": "rows.check",
                "table": self._table,
                "row": base64.b64encode(row).decode(),
                "column": base64.b64encode(column).decode(),
                "value": None if value is None else base64.b64encode(value).decode(),
                "cells": cells,
            }
        )

    def _run(self, request: dict[str, Any]) -> None:
        self._say(f"java {_readable(request)}")
        self._store.admin.run(Command(request, ""))


def _readable(request: dict[str, Any]) -> str:
    def text(value: str | None) -> Any:
        return None if value is None else base64.b64decode(value)

    def cells(found: list[list[Any]]) -> str:
        return str([(k, text(c), ts, v if isinstance(v, int) else text(v)) for k, c, ts, v in found])

    if request["do"] == "rows.check":
        condition = f"if {text(request['column'])!r} is {text(request['value'])!r}"
        return f"check {text(request['row'])!r} {condition}: {cells(request['cells'])}"
    return "; ".join(f"{text(r['row'])!r} {cells(r['cells'])}" for r in request["rows"])
