"""How fast the engine maintains one view on one core, for some views beside a hand-written program.

No store, no network, no epoch protocol: decoded base-table changes in, changed view rows out. The stream is
that of DBToaster's benchmark: from empty tables, all rows inserted, the tables in proportion, with deletes of
random live rows in between. It is encoded before the clock starts; what is timed is `Engine.step` alone.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import Any

import pyarrow as pa

from bench.breakdown import Breakdown
from bench.micro.limits import LIMITS, Limit
from bench.peers import duck
from bench.tpch import data, queries
from bench.tpch.changes import ChangeStream
from bench.tpch.encoded import EncodedStream
from bench.tpch.expected import expected
from bench.tpch.schema import TABLES
from vms.errors import UserError
from vms.maintenance.engine import Engine
from vms.model.changes import RowChanges
from vms.plan.frontend import plan_view
from vms.plan.plan import MaintenancePlan
from vms.testing.compare import assert_same_rows

Step = Callable[[Mapping[str, RowChanges]], object]

#: Smaller batches than this are measured on a view that already holds half of the stream: their cost does not
#: depend on how the state was filled, and filling it with them would take longer than measuring.
_WARM_BELOW = 1000
_WARM_BATCH = 10_000
#: Changes that are cut into batches at a time, between two looks at the clock. Not higher, or a slow cell
#: would overrun its time; not lower, or reading the clock would count at batches of 1.
_CHUNK = 100_000
_CHUNK_BATCHES = 256


def run(
    names: Sequence[str],
    batches: Sequence[int],
    sf: float,
    delete_share: float,
    seed: int,
    *,
    seconds: float = 5.0,
    update_share: float = 0.0,
    zipf: float = 0.0,
    breakdown: bool = False,
    peers: bool = False,
) -> Iterator[dict[str, Any]]:
    """One cell for each query and batch size, as plain values; each is given about `seconds` of engine time.

    `tuples` is the number of base-table changes that were timed; `ratio` is engine by limit, None for a query
    that has no hand-written program; `exact` says that engine and limit equal DuckDB's evaluation of the query
    over the base tables at that point of the stream, and a cell that is not exact says in `difference` how.
    This process keeps to one core meanwhile. `update_share` and `zipf` are the ChangeStream's. With `breakdown`
    a cell also says which share of the time each operation took; with `peers` cells of other systems follow.
    """
    texts = {name: queries.text(name) for name in names}
    if min(batches, default=1) < 1:
        raise UserError(f"a batch has at least 1 change, not {min(batches)}")
    rows = data.tables(sf)
    counts = {name: table.num_rows for name, table in rows.items()}
    with _one_core():
        for name, text in texts.items():
            plan = plan_view(name, text, TABLES, counts).plan
            used = {table: rows[table] for table in plan.sources}
            stream = ChangeStream(used, seed, delete_share, update_share, 0, 0, zipf or None)
            _warm_up(name, plan, stream)
            for batch in batches:
                yield _cell(name, plan, stream, batch, seconds, breakdown)
                if peers and not update_share:
                    yield duck.measure(name, stream, batch, seconds)


def _cell(
    name: str, plan: MaintenancePlan, stream: ChangeStream, batch: int, seconds: float, breakdown: bool
) -> dict[str, Any]:
    engine, limit, changes = _prepare(name, plan, stream)
    parts = Breakdown(engine, plan) if breakdown else None
    step = engine.step if parts is None else parts.step
    start = len(stream) // 2 if batch < _WARM_BELOW else 0
    stop, cpu, wall, step_s = _drive(step, changes, batch, start, len(stream), seconds)
    tuples, results = stop - start, {"engine": engine.contents(name)}
    limit_cpu = limit_step_s = None
    if limit is not None:
        _, limit_cpu, _, limit_step_s = _drive(limit.step, changes, batch, start, stop)
        results["limit"] = limit.result()
    difference = _difference(name, stream.final_tables(stop), results)
    cell = {
        "query": name,
        "batch": batch,
        "tuples": tuples,
        "cpu_s": round(cpu, 6),
        "wall_s": round(wall, 6),
        "tuples_per_cpu_s": round(tuples / cpu),
        "limit_tuples_per_cpu_s": limit_cpu and round(tuples / limit_cpu),
        "ratio": limit_cpu and round(limit_cpu / cpu, 4),
        "step_us": round(1e6 * step_s, 1),
        "limit_step_us": limit_step_s and round(1e6 * limit_step_s, 1),
        "state_mb": round(engine.memory_bytes() / 1e6, 3),
        "exact": difference is None,
    }
    if parts is not None:
        cell["breakdown"] = parts.shares()
    return cell if difference is None else {**cell, "difference": difference}


def _prepare(name: str, plan: MaintenancePlan, stream: ChangeStream) -> tuple[Engine, Limit | None, EncodedStream]:
    """An empty engine, an empty limit if there is one, and the stream in codes of the engine's text pool."""
    engine = Engine(plan, {table: TABLES[table] for table in plan.sources})
    columns = {table: engine.source_columns(table) for table in plan.sources}
    limit = LIMITS[name](columns, engine.pool) if name in LIMITS else None
    return engine, limit, EncodedStream(stream, columns, engine.pool)


def _warm_up(name: str, plan: MaintenancePlan, stream: ChangeStream) -> None:
    """Compile, or load from the cache, what the cells will run: large batches, then batches of one change."""
    engine, limit, changes = _prepare(name, plan, stream)
    for step in (engine.step, limit.step) if limit is not None else (engine.step,):
        for size, start, stop in ((1000, 0, 5000), (1, 5000, 5020)):
            for batch in changes.batches(size, min(start, len(stream)), min(stop, len(stream))):
                step(batch)


def _drive(
    step: Step, changes: EncodedStream, batch: int, start: int, stop: int, seconds: float = float("inf")
) -> tuple[int, float, float, float]:
    """Fill up to `start` untimed, then feed until `stop` or the time is up.

    Returns where it ended, CPU time, wall time, and the median CPU time of a step.
    """
    for warm in changes.batches(_WARM_BATCH, 0, start):
        step(warm)
    chunk = batch * max(1, min(_CHUNK_BATCHES, _CHUNK // batch))
    cpu = wall = 0.0
    steps: list[float] = []
    while start < stop and wall < seconds:
        end = min(start + chunk, stop)
        ready = list(changes.batches(batch, start, end))
        gc.collect()
        wall_before, cpu_before = time.perf_counter(), time.process_time()
        ends = [cpu_before]
        for one in ready:
            step(one)
            ends.append(time.process_time())
        cpu += ends[-1] - cpu_before
        wall += time.perf_counter() - wall_before
        steps += [after - before for before, after in pairwise(ends)]
        start = end
    return start, cpu, wall, median(steps)


def _difference(name: str, tables: Mapping[str, pa.Table], results: Mapping[str, pa.Table]) -> str | None:
    """How the first wrong result differs from DuckDB's, or None when all are right."""
    rows = expected(name, tables)
    for who, result in results.items():
        try:
            assert_same_rows(result, rows)
        except AssertionError as difference:
            return f"{who}: {difference}"
    return None


@contextmanager
def _one_core() -> Iterator[None]:
    """Keep this process on one core, where the system can; afterwards as before."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
