"""The embedded store against the contract, and what is its own: durability, reopening, locks, compaction."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import msgpack
import pytest
from rocksdict import Options, Rdict
from store_contract import KEEPING, A, B, StoreContract, StreamContract, put, row_delete, stamps, values

from vms.errors import StoreError, StoreUnavailable
from vms.store.base import Entry, Family
from vms.store.embedded import EmbeddedStore
from vms.stream.base import SourceBatch
from vms.stream.embedded import EmbeddedSource
from vms.stream.scripted import ScriptedSource

DAY = 86_400_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    store = EmbeddedStore(tmp_path / "store")
    yield store
    store.close()


class TestEmbeddedStore(StoreContract):
    pass


class TestEmbeddedStream(StreamContract):
    pass


def test_everything_is_there_after_reopening(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.create_table("t", {"f": KEEPING, "g": Family(2, 1, DAY, False)}, [b"m"], stream=True)
    store.mutate("t", [put(b"a", 1, a=b"1"), put(b"z", 1, a=b"1")])
    store.split("t", b"t")
    last = store.mutate("t", [put(b"z", 2, a=b"2")])
    low = store.regions("t")[0].id
    store.acknowledge(low, 1)
    store.meta_put("key", b"value")
    regions, stream = store.regions("t"), store.stream_regions()
    store.close()

    again = EmbeddedStore(tmp_path)
    assert again.regions("t") == regions and again.stream_regions() == stream
    assert again.acknowledged(low) == 1 and again.meta_get("key") == b"value"
    assert [(row, values(found)) for row, found in again.scan("t")] == [(b"a", {A: b"1"}), (b"z", {A: b"2"})]
    assert again.snapshot("t").positions == {regions[0].id: 1, regions[1].id: 1, **last}
    assert again.mutate("t", [put(b"z", 3, a=b"3")]) == {region: seq + 1 for region, seq in last.items()}
    assert len(again.versions("t", b"z", A)) == 3
    again.close()


#: Writes steps 1, 2, ... and says each when it is done; every step changes two regions, some split or read.
_WRITER = """
import sys
from vms.store.base import Cell, Family, Mutation
from vms.store.embedded import EmbeddedStore

store = EmbeddedStore(sys.argv[1])
store.create_table("t", {"f": Family()}, [b"5"], stream=True)
for step in range(1, 100_000):
    mark = b"%d" % step
    rows = [b"3", b"7", b"3-" + mark, b"7-" + mark]
    store.mutate("t", [Mutation(row, (Cell(b"f:a", step, 0, mark),)) for row in rows])
    assert store.meta_cas("step", b"%d" % (step - 1) if step > 1 else None, mark)
    if step % 7 == 0:
        store.split("t", b"7-" + mark + b"-")
    if step % 5 == 0:
        region = store.stream_regions()[0].id
        store.acknowledge(region, store.read_stream(region, 0, 1)[-1].seq)
        store.compact("t")
    print(step, flush=True)
"""


@pytest.mark.parametrize("seed", range(4))
def test_kill_minus_nine_loses_nothing_and_halves_nothing(tmp_path: Path, seed: int) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None and writer.stderr is not None
    wanted = random.Random(seed).randrange(1, 60)
    for line in writer.stdout:
        if int(line) >= wanted:
            break
    os.kill(writer.pid, signal.SIGKILL)
    said = max([wanted, *map(int, writer.stdout.read().split())])
    assert writer.wait() == -signal.SIGKILL, writer.stderr.read()
    writer.stdout.close()
    writer.stderr.close()

    store = EmbeddedStore(tmp_path)
    found = {row: int(values(cells)[A]) for row, cells in store.scan("t")}
    step = found[b"3"]
    assert step in (said, said + 1)
    steps = range(1, step + 1)
    assert found == {b"3": step, b"7": step} | {b"%d-%d" % (k, i): i for k in (3, 7) for i in steps}
    assert int(store.meta_get("step") or b"") in (step - 1, step)

    acknowledged = {b"3": 0, b"7": 0}
    streamed: dict[bytes, list[int]] = {b"3": [], b"7": []}
    for region in store.stream_regions():
        for entry in store.read_stream(region.id, 0, 1 << 30):
            for row, cells in entry.mutations:
                if row in streamed:
                    streamed[row].append(cells[0].ts)
    for row, seen in streamed.items():
        if seen:
            acknowledged[row] = seen[0] - 1
            assert seen == list(range(seen[0], step + 1))
    assert sum(acknowledged.values()) <= 2 * (step // 5 + 1)
    store.close()


def test_a_store_that_is_open_elsewhere_says_so(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from vms.store.embedded import EmbeddedStore;"
            "s = EmbeddedStore(sys.argv[1]); print('open', flush=True); sys.stdin.read()",
            str(tmp_path / "shared"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None and holder.stdout.readline() == "open\n"
    with pytest.raises(StoreUnavailable, match=r"shared is already open"):
        EmbeddedStore(tmp_path / "shared")
    holder.communicate("")
    EmbeddedStore(tmp_path / "shared").close()


def test_closing_ends_scans_and_snapshots_and_frees_the_folder(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    store.create_table("t", {"f": Family()}, stream=True)
    store.mutate("t", [put(b"%05d" % i, 1, a=b"1") for i in range(5000)])
    scan, snapshot, untouched = store.scan("t"), store.snapshot("t"), store.scan("t")
    next(scan)
    store.close()
    store.close()
    for use in (
        lambda: list(scan),
        lambda: list(snapshot.scan()),
        lambda: list(untouched),
        lambda: store.get("t", b"r"),
        lambda: store.mutate("t", [put(b"r", 1, a=b"1")]),
        lambda: store.create_table("u", {"f": Family()}),
        store.stream_regions,
        store.tables,
        lambda: store.meta_get("key"),
    ):
        with pytest.raises(StoreError, match="closed"):
            use()
    again = EmbeddedStore(tmp_path)
    assert len(list(again.scan("t"))) == 5000
    again.close()


def test_another_format_and_another_database_are_refused(tmp_path: Path) -> None:
    EmbeddedStore(tmp_path / "store").close()
    families = {"rows": Options(raw_mode=True), "stream": Options(raw_mode=True)}
    raw = Rdict(str(tmp_path / "store"), Options(raw_mode=True), families)
    raw[b"format"] = msgpack.packb(99)
    raw.close()
    with pytest.raises(StoreError, match="format 99"):
        EmbeddedStore(tmp_path / "store")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="file"):
        EmbeddedStore(tmp_path / "file")


def test_ranges_open_at_the_same_time_keep_their_own_ends(store: EmbeddedStore) -> None:
    store.create_table("t", {"f": Family()})
    store.mutate("t", [put(b"%03d" % i, 1, a=b"1") for i in range(300)])
    ranges = [(b"%03d" % i, b"%03d" % (i + 1), b"%03d" % (i + 2)) for i in range(250)]
    scans = [store.scan("t", start, stop) for start, _, stop in ranges]
    assert [[row for row, _ in scan] for scan in scans] == [[start, middle] for start, middle, _ in ranges]


def test_a_row_that_changes_all_the_time_stays_small(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path, sync=False)
    store.create_table("base", {"f": Family()}, stream=True)
    store.create_table("view", {"f": Family(8, 8, DAY, True)})
    store.mutate("base", [put(b"%03d" % i, 1, a=b"1") for i in range(100)])
    for ts in range(2, 500):
        store.mutate("base", [put(b"hot", ts, a=b"%d" % ts)])
        store.mutate("view", [put(b"hot", ts, a=b"%d" % ts)])
        assert store.entry_count("base") <= 100 + 18 and store.entry_count("view") <= 18
    assert values(store.get("base", b"hot")) == {A: b"499"}
    assert [values(store.get("view", b"hot", before=ts + 1)) for ts in range(492, 500)] == [
        {A: b"%d" % ts} for ts in range(492, 500)
    ]
    assert len(list(store.scan("base"))) == 101
    store.close()


def test_compaction_keeps_reads_and_takes_expired_rows_out(tmp_path: Path) -> None:
    now = [1000]
    store = EmbeddedStore(tmp_path, sync=False, now_ms=lambda: now[0])
    store.create_table("view", {"f": Family(5, 5, DAY, True)})
    store.create_table("base", {"f": Family()})
    for table in ("view", "base"):
        store.mutate(table, [put(b"%04d" % i, 10, a=b"old", b=b"old") for i in range(1500)])
        store.mutate(table, [put(b"%04d" % i, 20, a=b"new") for i in range(0, 1500, 2)])
        store.mutate(table, [row_delete(b"%04d" % i, 30) for i in range(0, 1500, 3)])

    def read_all() -> list[list]:
        bounds = 10, 11, 21, 31, None
        return [list(store.scan("view", before=bound)) for bound in bounds] + [list(store.scan("base"))]

    reads = read_all()
    for table in ("view", "base"):
        store.compact(table)
    assert read_all() == reads
    assert store.entry_count("view") == 1500 and store.entry_count("base") == 1500
    assert stamps(store.versions("view", b"0002", A)) == [20, 10]

    now[0] = 31 + DAY
    for table in ("view", "base"):
        store.compact(table)
    assert store.entry_count("view") == 1000, "deleted rows are gone after the ttl"
    assert store.entry_count("base") == 1500, "without a ttl the tombstones stay"
    assert read_all()[-2:] == reads[-2:]
    assert store.get("base", b"0003") is None
    store.mutate("base", [put(b"0003", 29, a=b"late")])
    assert store.get("base", b"0003") is None
    store.close()


def test_writers_readers_and_compaction_at_once(store: EmbeddedStore) -> None:
    store.create_table("t", {"f": Family()}, stream=True)
    failures: list[Exception] = []

    def write(name: bytes) -> None:
        try:
            for ts in range(1, 60):
                store.mutate("t", [put(name + b"%d" % i, ts, a=b"%d" % ts, b=b"%d" % ts) for i in range(20)])
        except Exception as error:
            failures.append(error)

    writers = [Thread(target=write, args=(name,)) for name in (b"x", b"y")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        store.compact("t")
        for _, row in store.scan("t"):
            assert row[A].value == row[B].value, "a mutation of a row is seen whole"
    for writer in writers:
        writer.join()
    assert failures == []
    assert {values(row)[A] for _, row in store.scan("t")} == {b"59"}
    entries = store.read_stream(store.regions("t")[0].id, 0, 1 << 30)
    assert [entry.seq for entry in entries] == list(range(1, 2 * 59 + 1))


def test_compare_and_set_has_one_winner(store: EmbeddedStore) -> None:
    assert store.meta_get("epoch") is None
    assert store.meta_cas("epoch", None, b"0") and not store.meta_cas("epoch", None, b"1")
    won: list[bytes] = []

    def race(name: bytes) -> None:
        for turn in range(20):
            if store.meta_cas("epoch", b"%d" % turn, b"%d" % (turn + 1)):
                won.append(b"%d" % turn)

    racers = [Thread(target=race, args=(name,)) for name in (b"x", b"y", b"z")]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(won) == len(set(won))
    store.meta_put("epoch", None)
    assert store.meta_get("epoch") is None


class TestEmbeddedSource:
    @pytest.fixture
    def source(self, store: EmbeddedStore) -> EmbeddedSource:
        store.create_table("t", {"f": Family()}, [b"m"], stream=True)
        return EmbeddedSource(store)

    @staticmethod
    def marks(batches: list[SourceBatch]) -> list[tuple[bytes, int]]:
        entries = [entry for batch in batches for entry in batch.entries]
        return [(row, cells[0].ts) for entry in entries for row, cells in entry.mutations]

    def test_one_batch_per_region_is_outstanding(self, store: EmbeddedStore, source: EmbeddedSource) -> None:
        store.mutate("t", [put(b"a", 1, a=b""), put(b"z", 1, a=b"")])
        first = source.poll(100)
        assert sorted(self.marks(first)) == [(b"a", 1), (b"z", 1)]
        store.mutate("t", [put(b"a", 2, a=b""), put(b"z", 2, a=b"")])
        assert source.poll(100) == []
        source.acknowledge(first[0])
        (second,) = source.poll(100)
        assert (second.region, second.first, second.last) == (first[0].region, 2, 2)
        assert source.lag().entries == 3

    def test_reset_delivers_again_what_is_not_acknowledged(self, store: EmbeddedStore, source: EmbeddedSource) -> None:
        store.mutate("t", [put(b"a", 1, a=b"")])
        (first,) = source.poll(100)
        store.mutate("t", [put(b"a", 2, a=b"")])
        source.reset()
        (again,) = source.poll(100)
        assert self.marks([again]) == [(b"a", 1), (b"a", 2)]
        source.acknowledge(first)
        assert source.poll(100) == [], "the larger batch is still outstanding"
        source.acknowledge(again)
        assert source.lag().entries == 0
        source.reset()
        assert source.poll(100) == []

    def test_daughters_wait_for_their_parent(self, store: EmbeddedStore, source: EmbeddedSource) -> None:
        for ts in (1, 2, 3):
            store.mutate("t", [put(b"z", ts, a=b"")])
        (first,) = source.poll(1)
        store.split("t", b"t")
        store.split("t", b"x")
        store.mutate("t", [put(b"z", 4, a=b""), put(b"a", 4, a=b"")])
        seen = self.marks([first])
        (other,) = source.poll(100)
        assert self.marks([other]) == [(b"a", 4)], "another region is not held up"
        source.acknowledge(first)
        while batches := source.poll(1):
            (batch,) = batches
            seen += self.marks([batch])
            source.acknowledge(batch)
        assert seen == [(b"z", ts) for ts in (1, 2, 3, 4)]

    def test_a_limit_starves_no_region(self, store: EmbeddedStore, source: EmbeddedSource) -> None:
        for ts in range(1, 11):
            store.mutate("t", [put(b"a", ts, a=b""), put(b"z", ts, a=b"")])
        seen: list[bytes] = []
        for _ in range(6):
            (batch,) = source.poll(1)
            seen.append(batch.entries[0].mutations[0].row)
            source.acknowledge(batch)
        assert set(seen) == {b"a", b"z"}

    def test_waiting_ends_when_something_arrives(self, store: EmbeddedStore, source: EmbeddedSource) -> None:
        source.poll(100)
        assert not source.wait(0)
        writer = Thread(target=store.mutate, args=("t", [put(b"a", 1, a=b"")]))
        writer.start()
        assert source.wait(60)
        writer.join()
        assert self.marks(source.poll(100)) == [(b"a", 1)]
        assert not source.wait(0)

    def test_what_a_limit_left_needs_no_waiting(self, store: EmbeddedStore, source: EmbeddedSource) -> None:
        store.mutate("t", [put(b"a", 1, a=b""), put(b"z", 1, a=b"")])
        assert len(source.poll(1)) == 1 and source.wait(0)
        assert len(source.poll(1)) == 1 and source.poll(1) == [] and not source.wait(0)

    def test_a_restart_delivers_what_was_outstanding(self, tmp_path: Path) -> None:
        store = EmbeddedStore(tmp_path)
        store.create_table("t", {"f": Family()}, stream=True)
        source = EmbeddedSource(store)
        for ts in (1, 2):
            store.mutate("t", [put(b"a", ts, a=b"")])
        source.acknowledge(source.poll(1)[0])
        source.poll(1)
        source.close()
        store.close()
        store = EmbeddedStore(tmp_path)
        assert self.marks(EmbeddedSource(store).poll(100)) == [(b"a", 2)]
        store.close()


class TestScriptedSource:
    @staticmethod
    def batch(region: str, seq: int) -> SourceBatch:
        return SourceBatch("t", region, seq, seq, (Entry(seq, (put(b"r", seq, a=b""),)),))

    def test_it_keeps_the_protocol_and_repeats_on_command(self) -> None:
        parent, daughter, other = self.batch("p", 1), self.batch("d", 2), self.batch("o", 1)
        source = ScriptedSource([parent, self.batch("p", 2), daughter, other], parents={"d": "p"})
        assert source.poll(100) == [parent, other] and source.poll(100) == []
        source.acknowledge(parent)
        assert [b.last for b in source.poll(100)] == [2]
        source.reset()
        assert [(b.region, b.last) for b in source.poll(100)] == [("p", 2), ("o", 1)]
        source.acknowledge(self.batch("p", 2))
        source.duplicate(parent)
        assert source.poll(100) == [parent, daughter]
        assert source.lag().entries == 2
        source.append(self.batch("o", 2))
        assert source.wait(0)
        with pytest.raises(ValueError):
            source.append(self.batch("o", 2))
