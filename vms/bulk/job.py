"""A view's plan on Spark, over tables at one instant (design section 10).

Stage 0 reads the ranges, some at a time; what it sends on is kept in the job's folder, so a job that was killed
goes on with the ranges that are missing. Then the other stages run as one chain: rows go to their part by slot,
and each part is one task. Spark moves batches, and never looks into them: the operations and kernels are those of
the managers. State and view rows go into files of the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgpack
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from vms.bulk.readers import KeyRange, Reader
from vms.errors import InternalError
from vms.maintenance.cut import batch_from_bytes, batch_to_bytes
from vms.maintenance.stage_run import StageRun, parts_of
from vms.manager.bulk_files import Folder, StateFile, write_manifest, write_state
from vms.model.table import BaseTable
from vms.plan.plan import MaintenancePlan
from vms.plan.stages import Stages
from vms.stream.decode import DeadLetter

#: What travels between tasks. `kind` is ROWS (of node `name`, for part `part`), FILE (`name` was written), READ
#: (range `name` was read), or LETTER (what could not be decoded). `count` is a number of rows.
_SCHEMA = "kind string, part int, name string, sender int, digest long, count long, body binary"
ROWS, FILE, READ, LETTER = "rows", "file", "read", "letter"
_ARROW = pa.schema(
    [
        ("kind", pa.string()),
        ("part", pa.int32()),
        ("name", pa.string()),
        ("sender", pa.int32()),
        ("digest", pa.int64()),
        ("count", pa.int64()),
        ("body", pa.binary()),
    ]
)
#: Rows of one batch that travels. Not higher, or a batch could pass what Spark takes as one value; not lower, or
#: the fixed cost of a batch would show.
_SENT_ROWS = 1 << 17

Record = tuple[str, int, str, int, int, int, bytes]
#: Told after each wave: ranges done, ranges in all, rows so far.
Progress = Callable[[int, int, int], None]


def _quiet(_done: int, _of: int, _rows: int) -> None:
    pass


@dataclass(frozen=True)
class Job:
    """One plan over one reader. What it leaves in `folder` is read by `vms.manager.bulk_files`."""

    plan: MaintenancePlan
    tables: Mapping[str, BaseTable]
    columns: Mapping[str, tuple[str, ...]]
    reader: Reader
    folder: str
    parts: int = 8
    #: Ranges read at a time, between which progress is told and a job that was killed can go on.
    wave: int = 8

    def run(
        self, spark: SparkSession, progress: Progress = _quiet, pause: Callable[[], None] = lambda: None
    ) -> list[DeadLetter]:
        """Do what is not done yet; returns what could not be decoded. `pause` is called before each wave."""
        ranges = [r for table in self.plan.sources for r in self.reader.ranges(self.tables[table])]
        waves = [range(i, min(i + self.wave, len(ranges))) for i in range(0, len(ranges), self.wave)]
        folder, read = Folder(self.folder), 0
        progress(0, len(ranges), 0)
        for number, wave in enumerate(waves):
            if not folder.exists(f"scan/{number}/_SUCCESS"):
                pause()
                self._scan(spark, [(i, ranges[i]) for i in wave]).write.mode("overwrite").parquet(self._wave(number))
            read += self._check(spark, number, wave)
            progress(wave.stop, len(ranges), read)
        scanned = spark.read.schema(_SCHEMA).parquet(*(self._wave(n) for n in range(len(waves))))
        letters = [_letter(r.body) for r in scanned.filter(f"kind = '{LETTER}'").collect()]
        done = self._chain(spark, scanned.filter(f"kind in ('{ROWS}', '{FILE}')")).filter(f"kind = '{FILE}'").collect()
        write_manifest(folder, [StateFile(r.name, r.digest & (2**64 - 1), r["count"]) for r in done])
        return letters

    def _wave(self, number: int) -> str:
        url = self.folder if "://" in self.folder else f"file://{self.folder}"
        return f"{url}/scan/{number}"

    def _scan(self, spark: SparkSession, ranges: Sequence[tuple[int, KeyRange]]) -> DataFrame:
        """Stage 0: one task for each range."""
        rows = [(place, i, r.table, bytearray(r.start), bytearray(r.stop)) for place, (i, r) in enumerate(ranges)]
        todo = spark.createDataFrame(rows, "place int, number int, name string, start binary, stop binary")
        return todo.repartitionById(len(rows), "place").mapInArrow(self._read_ranges, _SCHEMA)

    def _check(self, spark: SparkSession, number: int, wave: range) -> int:
        """The rows of a wave; raises if not every range of it has answered exactly once."""
        found = spark.read.schema(_SCHEMA).parquet(self._wave(number)).filter(f"kind = '{READ}'").collect()
        answered = sorted(int(r.name) for r in found)
        if answered != list(wave):
            raise InternalError(f"of the ranges {list(wave)} only {answered} were read; run the job again")
        return sum(r["count"] for r in found)

    def _chain(self, spark: SparkSession, records: DataFrame) -> DataFrame:
        """Stages 1 to the last. Every part gets a record in any case: a grand total exists without any row."""
        empty = [(READ, part, "", 0, 0, 0, bytearray()) for part in range(self.parts)]
        records = records.union(spark.createDataFrame(empty, _SCHEMA))
        for stage in range(1, Stages(self.plan).last + 1):
            records = records.repartitionById(self.parts, "part").mapInArrow(_Stage(self, stage), _SCHEMA)
        return records

    # --- in the workers --------------------------------------------------------------------------------------

    def _read_ranges(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stages = Stages(self.plan)
        for batch in batches:
            for todo in batch.to_pylist():
                wanted = KeyRange(todo["name"], todo["start"], todo["stop"])
                yield from _batches(self._read_range(stages, todo["number"], wanted))

    def _read_range(self, stages: Stages, number: int, wanted: KeyRange) -> Iterator[Record]:
        table = self.tables[wanted.table]
        pieces: list[pa.RecordBatch] = []
        for piece, letters in self.reader.read(table, wanted):
            pieces.append(piece)
            for letter in letters:
                yield LETTER, number % self.parts, wanted.table, number, 0, 1, _letter_bytes(letter)
        count = sum(piece.num_rows for piece in pieces)
        yield READ, number % self.parts, str(number), number, 0, count, b""
        if count:
            rows = pa.Table.from_batches(pieces).combine_chunks().to_batches()[0]
            run = StageRun(stages, self.tables, parts_of(self.parts), 0, 0)
            run.read(wanted.table, self.columns[wanted.table], rows, self.reader.horizon)
            run.run()
            yield from self._results(run, 0, number, number % self.parts)

    def _results(self, run: StageRun, stage: int, sender: int, part: int) -> Iterator[Record]:
        """What a run sends on, and the file with what it holds."""
        for to, node, rows in run.sent():
            for start in range(0, rows.num_rows, _SENT_ROWS):
                body = batch_to_bytes(rows.slice(start, _SENT_ROWS))
                yield ROWS, to, node, sender, 0, min(_SENT_ROWS, rows.num_rows - start), body
        file = write_state(Folder(self.folder), f"{stage}-{sender}", run.state())
        yield FILE, part, file.name, sender, _signed(file.digest), file.rows, b""


class _Stage:
    """One stage after the first, over one part: a function for Spark."""

    def __init__(self, job: Job, stage: int) -> None:
        self._job, self._stage = job, stage

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches, _ARROW)
        if table.num_rows:
            yield from _batches(self._records(table))

    def _records(self, came: pa.Table) -> Iterator[Record]:
        """In the order of node and sender: a task that runs twice does the same twice."""
        job, part = self._job, came.column("part")[0].as_py()
        run = StageRun(Stages(job.plan), job.tables, parts_of(job.parts), self._stage, part)
        records = [tuple(r.values()) for r in came.to_pylist()]
        for _, _, name, *_, body in sorted(r for r in records if r[0] == ROWS):
            run.receive(name, batch_from_bytes(body))
        run.run()
        yield from (r for r in records if r[0] != ROWS)
        yield from job._results(run, self._stage, part, part)


def _batches(records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
    """A few records at a time: a body may be large."""
    some: list[Record] = []
    for record in records:
        some.append(record)
        if len(some) >= 64 or sum(len(r[-1]) for r in some) > 1 << 24:
            yield _batch(some)
            some = []
    if some:
        yield _batch(some)


def _batch(records: Sequence[Record]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(zip(*records), _ARROW)], schema=_ARROW)


def _signed(digest: int) -> int:
    return digest - (1 << 64) if digest >> 63 else digest


def _letter_bytes(letter: DeadLetter) -> bytes:
    return msgpack.packb(list(letter))


def _letter(body: bytes) -> DeadLetter:
    return DeadLetter(*msgpack.unpackb(body))
