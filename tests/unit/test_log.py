"""The transaction log: what stands under a name, what is detected, what is removed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from vms.errors import CorruptState, StoreError
from vms.maintenance.cut import Checkpoint, Cut
from vms.maintenance.messages import Batch, Handoff
from vms.maintenance.record import Record
from vms.manager import log as log_module
from vms.manager.log import TransactionLog
from vms.model.ring import SLOTS


def cut(epoch: int, value: int = 0, generation: int = 1) -> Cut:
    rows = pa.record_batch({"k": pa.array([value], pa.int64())})
    return Cut(Record(epoch, epoch - 1, generation), {"t": rows}, watermarks={"r": np.full(SLOTS, epoch)})


def checkpoint(epoch: int, rows: int = 3) -> Checkpoint:
    state = {"table:t": [pa.record_batch({"k": pa.array(range(rows), pa.int64())})], "join-1": []}
    return Checkpoint(Record(epoch, epoch - 1, 1, committed=True), {"r": np.full(SLOTS, epoch)}, state)


def value(cut: Cut) -> int:
    return cut.changes["t"].column("k")[0].as_py()


@pytest.fixture
def log(tmp_path: Path) -> TransactionLog:
    made = TransactionLog(tmp_path)
    made.create("m1", 1)
    return made


def files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def test_the_first_cut_stands(log: TransactionLog) -> None:
    assert log.propose("m1", cut(5, value=1)) is not None
    standing = log.propose("m1", cut(5, value=2))
    assert standing is not None and not standing[1]
    assert value(standing[0]) == 1


@pytest.mark.parametrize("epoch", range(1, 21))
def test_all_who_propose_at_once_get_the_same(tmp_path: Path, epoch: int) -> None:
    """Each with an object of its own, as processes have."""
    TransactionLog(tmp_path).create("m1", 1)
    together = threading.Barrier(4)
    got: list[tuple[int, bool]] = []

    def propose(mine: int) -> None:
        log = TransactionLog(tmp_path)
        together.wait()
        standing = log.propose("m1", cut(epoch, value=mine))
        assert standing is not None
        got.append((value(standing[0]), standing[1]))

    threads = [threading.Thread(target=propose, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({v for v, _ in got}) == 1
    assert [ours for _, ours in got].count(True) == 1
    assert files(tmp_path / "m1") == {"begins", f"1/log/{epoch:020d}.cut"}


def test_what_was_logged_is_read_in_order(log: TransactionLog) -> None:
    batch = Batch(1, 9, "edge", pa.record_batch({"k": [1]}))
    handoff = Handoff(1, 9, {"table:t": [pa.record_batch({"k": [2]})]}, {"r": np.arange(SLOTS)})
    for epoch in (9, 10, 8):
        log.propose("m1", cut(epoch, value=epoch))
    log.append_received("m1", 1, 9, [("m2", batch), ("m3", handoff)])
    (nine, received), (ten, nothing) = log.read("m1", 1, after=8)
    assert (value(nine), value(ten), nothing) == (9, 10, None)
    assert nine.record == Record(9, 8, 1) and nine.watermarks["r"][0] == 9
    assert received is not None
    (_, first), (_, second) = received
    assert isinstance(first, Batch) and first.rows is not None and first.rows.to_pydict() == {"k": [1]}
    assert isinstance(second, Handoff) and second.state["table:t"][0].to_pydict() == {"k": [2]}
    assert second.watermarks["r"].tolist() == list(range(SLOTS))


@pytest.mark.parametrize("kind", ["cut", "received"])
@pytest.mark.parametrize("harm", [damage, shorten, empty])
def test_damage_is_detected(log: TransactionLog, tmp_path: Path, kind: str, harm: Callable[[Path], None]) -> None:
    log.propose("m1", cut(3))
    log.append_received("m1", 1, 3, [("m2", Batch(1, 3, "edge", None))])
    assert len(list(log.read("m1", 1, after=0))) == 1
    path = tmp_path / "m1" / "1" / "log" / f"{3:020d}.{kind}"
    harm(path)
    with pytest.raises(CorruptState, match=path.name):
        list(log.read("m1", 1, after=0))
    assert list(log.read("m1", 1, after=3)) == []


def test_a_damaged_cut_is_not_given_out(log: TransactionLog, tmp_path: Path) -> None:
    log.propose("m1", cut(3))
    damage(tmp_path / "m1" / "1" / "log" / f"{3:020d}.cut")
    with pytest.raises(CorruptState):
        log.propose("m1", cut(3))


def test_a_checkpoint_comes_back_in_pieces_and_whole(log: TransactionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "PIECE_ROWS", 4)
    written = checkpoint(7, rows=10)
    size = log.save_checkpoint("m1", written)
    (path,) = log.checkpoints("m1", 1)
    assert path.stat().st_size == size
    read = log.load_checkpoint(path)
    assert read.record == written.record
    assert read.watermarks["r"].tolist() == written.watermarks["r"].tolist()
    pieces = read.state["table:t"]
    assert [b.num_rows for b in pieces] == [4, 4, 2]
    assert pa.Table.from_batches(pieces).column("k").to_pylist() == list(range(10))
    damage(path)
    with pytest.raises(CorruptState, match=path.name):
        log.load_checkpoint(path)


def test_the_log_is_kept_from_the_older_of_two_checkpoints(log: TransactionLog, tmp_path: Path) -> None:
    for epoch in range(1, 10):
        log.propose("m1", cut(epoch))
        log.append_received("m1", 1, epoch, [])
        if epoch % 3 == 0:
            log.save_checkpoint("m1", checkpoint(epoch))
    assert [int(p.name) for p in log.checkpoints("m1", 1)] == [9, 6]
    assert [c.record.epoch for c, _ in log.read("m1", 1, after=0)] == [7, 8, 9]
    kinds = {p.suffix for p in (tmp_path / "m1" / "1" / "log").iterdir()}
    assert kinds == {".cut", ".received"}


def test_sizes_count_what_a_restart_would_replay(log: TransactionLog, tmp_path: Path) -> None:
    log.propose("m1", cut(1))
    log.propose("m1", cut(1, value=2))
    log.append_received("m1", 1, 1, [])
    log.save_checkpoint("m1", checkpoint(1))
    assert log.size_bytes("m1", 1) == 0
    before = log.written
    log.propose("m1", cut(2))
    checksum = 8
    assert log.size_bytes("m1", 1) == log.written - before + checksum
    assert TransactionLog(tmp_path).size_bytes("m1", 1) == log.size_bytes("m1", 1)


def test_it_refuses_what_it_cannot_know(log: TransactionLog, tmp_path: Path) -> None:
    assert log.propose("m2", cut(1)) is None, "nobody began a log for this member"
    log.create("m1", 2)
    assert log.propose("m1", cut(1, generation=1)) is None, "a generation from before this log"
    log.create("m1", 1)
    for epoch in (3, 4):
        log.propose("m1", cut(epoch))
        log.save_checkpoint("m1", checkpoint(epoch))
    before = files(tmp_path)
    assert log.propose("m1", cut(2)) is None, "an epoch that a checkpoint holds and whose cut is removed"
    assert files(tmp_path) == before


def test_a_damaged_or_missing_beginning_vouches_for_nothing(log: TransactionLog, tmp_path: Path) -> None:
    assert log.knows("m1") and not log.knows("m2")
    damage(tmp_path / "m1" / "begins")
    assert not log.knows("m1")
    (tmp_path / "m1" / "begins").unlink()
    assert not log.knows("m1")


def test_a_new_beginning_forgets_all_before(log: TransactionLog, tmp_path: Path) -> None:
    log.propose("m1", cut(1))
    log.create("m1", 2)
    assert files(tmp_path / "m1") == {"begins"}


def test_abandoned_generations_and_unfinished_files_are_removed(log: TransactionLog, tmp_path: Path) -> None:
    log.propose("m1", cut(1))
    log.propose("m1", cut(2, generation=2))
    (tmp_path / "m1" / "2" / "log" / "half.new").write_bytes(b"half")
    log.remove_generations_before("m1", 2)
    log.remove_unfinished("m1")
    assert files(tmp_path / "m1") == {"begins", f"2/log/{2:020d}.cut"}


def test_a_disk_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    log = TransactionLog(tmp_path)
    (tmp_path / "m1").write_text("in the way")
    with pytest.raises(StoreError, match=r"the log cannot write .*begins"):
        log.create("m1", 1)
