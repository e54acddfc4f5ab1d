"""How fresh views over HBase are, and how many rows a second they follow, beside what HBase itself takes.

A VMS of its own is attached for the measurement and detached again. Clients write from another process, so that they
share no interpreter with the View Manager; all of it runs on this machine, HBase too, if it is there.

- Freshness: single puts at a steady rate. Each carries the time at which it was sent, and counts as readable when
  its epoch is committed and the row is told to a watcher, which is when every read holds it.
- Sustained: as many rows as fit through the Thrift gateway, first into a table that nobody follows, then into one
  that a view follows. The pipeline's rate ends with the commit that holds the last row.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import struct
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import vms
from vms.manager.database import Database
from vms.manager.ddl import parse_create_table
from vms.manager.hbase_attachment import Attachments
from vms.model.table import BaseTable
from vms.ring.session import Session
from vms.store.base import Cell, Family, Mutation
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress
from vms.stream.encode import RowEncoder

#: Value columns of the rows of the sustained load, and rows in a call of its client.
COLUMNS, CALL_ROWS = 10, 5_000
#: Puts at the beginning that are not counted: what is first used is loaded, and connections are made.
_WARM = 200


def run(store: str, rate: int, seconds: float, rows: int) -> Iterator[dict[str, Any]]:
    """One result for each measurement."""
    name = f"vmsbench_{uuid.uuid4().hex[:6]}"
    address = HBaseAddress.parse(store)._replace(root=f"/{name}")
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vms-bench-")))
        helper = stack.enter_context(closing(HBaseStore(address)))
        session = stack.enter_context(closing(Session(address.zookeeper_hosts, address.root)))
        attachments = Attachments(session, helper, address)
        attachments.attach([])
        try:
            with vms.connect(str(address), manage=True, folder=folder) as db:
                yield {"measure": "freshness", **_freshness(db, address, name, rate, seconds), **machine}
                yield {"measure": "sustained", **_sustained(db, helper, address, name, rows), **machine}
        finally:
            attachments.detach()
            for table in helper.tables():
                if table.startswith(name):
                    helper.drop_table(table)
            session.client.delete("/", recursive=True)


# --- freshness -------------------------------------------------------------------------------------------------


def _freshness(db: Database, address: HBaseAddress, name: str, rate: int, seconds: float) -> dict[str, Any]:
    table = parse_create_table(f"CREATE TABLE {name}_puts (id BIGINT PRIMARY KEY, sent BIGINT)")
    db.create_table(table)
    db.create_view(f"{name}_seen", f"SELECT id, max(sent) AS sent FROM {table.name} GROUP BY id")
    count = _WARM + int(rate * seconds)
    watch, before = db.view(f"{name}_seen").watch(timeout=120), dict(db.manager.traces.totals)
    first_epoch = db.runtime.readable.point.number
    writer = _process(_put_steadily, str(address), table, count, rate)
    found: list[np.ndarray] = []
    seen = 0
    while seen < count:
        _, rows = next(watch)
        ids, age = rows.column("id").to_numpy(), (time.time_ns() - rows.column("sent").to_numpy()) / 1e6
        seen += len(ids)
        found.append(age[ids >= _WARM])
    writer.join()
    watch.close()
    times = np.concatenate(found)
    epochs = db.runtime.readable.point.number - first_epoch
    spent = {k: round(1000 * (v - before.get(k, 0)) / epochs, 1) for k, v in db.manager.traces.totals.items()}
    quantiles = {f"p{q}_ms": round(float(np.percentile(times, q)), 1) for q in (50, 90, 99)}
    return {
        "puts_per_s": rate,
        "puts": len(times),
        **quantiles,
        "max_ms": round(float(times.max()), 1),
        "epochs": epochs,
        "ms_per_epoch": spent,
    }


def _put_steadily(address: str, table: BaseTable, count: int, rate: int) -> None:
    with closing(HBaseStore(HBaseAddress.parse(address))) as store:
        keys = [m.row for m in RowEncoder(table).deletes(pa.table({"id": pa.array(range(count), pa.int64())}), 1)]
        column, start = table.qualifier("sent"), time.perf_counter()
        for i, key in enumerate(keys):
            ahead = start + i / rate - time.perf_counter()
            if ahead > 0:
                time.sleep(ahead)
            sent = time.time_ns()
            cell = Cell(column, sent // 1_000_000, value=struct.pack(">q", sent))
            store.mutate(table.name, [Mutation(key, (cell,))])


# --- sustained -------------------------------------------------------------------------------------------------


def _sustained(db: Database, helper: HBaseStore, address: HBaseAddress, name: str, rows: int) -> dict[str, Any]:
    columns = ", ".join(f"c{i} BIGINT" for i in range(COLUMNS - 1))
    alone, followed = (
        parse_create_table(f"CREATE TABLE {name}_{kind} (id BIGINT PRIMARY KEY, g BIGINT, {columns})")
        for kind in ("alone", "followed")
    )
    helper.create_table(alone.name, {alone.family: Family()})
    db.create_table(followed)
    db.create_view(f"{name}_sums", f"SELECT g, count(*) AS n, sum(c0) AS total FROM {followed.name} GROUP BY g")
    _load(address, alone, CALL_ROWS)  # warm
    by_itself = _load(address, alone, rows)
    begin, cpu = time.perf_counter(), time.process_time()
    beside = _load(address, followed, rows)
    db.wait(db.latest())
    whole, cpu = time.perf_counter() - begin, time.process_time() - cpu
    n = sum(db.view(f"{name}_sums").read().column("n").to_pylist())
    if n != rows:
        raise AssertionError(f"the view counts {n} rows of {rows}")
    return {
        "rows": rows,
        "columns": COLUMNS,
        "hbase_alone_rows_per_s": round(rows / by_itself),
        "hbase_followed_rows_per_s": round(rows / beside),
        "pipeline_rows_per_s": round(rows / whole),
        "manager_cpu_us_per_row": round(1e6 * cpu / rows, 1),
    }


def _load(address: HBaseAddress, table: BaseTable, rows: int) -> float:
    """Seconds for which a client was writing."""
    seconds = multiprocessing.get_context("spawn").SimpleQueue()
    _process(_write, str(address), table, rows, seconds).join()
    return seconds.get()


def _write(address: str, table: BaseTable, rows: int, seconds: Any) -> None:
    calls = []
    encoder = RowEncoder(table, one_timestamp=True)
    stamp = time.time_ns() // 1_000_000
    for first in range(0, rows, CALL_ROWS):
        ids = np.arange(first, min(first + CALL_ROWS, rows))
        values = {c.name: ids * 7 for c in table.value_columns if c.name != "g"}
        calls.append(encoder.puts(pa.table({"id": ids, "g": ids % 100, **values}), stamp, whole=False))
    with closing(HBaseStore(HBaseAddress.parse(address))) as store:
        store.regions(table.name)
        begin = time.perf_counter()
        for call in calls:
            store.mutate(table.name, call)
        seconds.put(time.perf_counter() - begin)


def _process(target: Any, *arguments: Any) -> Any:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments, daemon=True)
    process.start()
    return process
