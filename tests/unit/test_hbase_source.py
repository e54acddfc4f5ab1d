"""HBase's WAL as a source, with a region server that a test plays."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from random import Random

import pytest

from vms.errors import StoreUnavailable
from vms.stream.hbase_regions import MADE_ANEW, Attachment, MetaRegion, RegionGuard
from vms.stream.hbase_source import HBaseSource
from vms.stream.hbase_wire import BUSY
from vms.testing.wal_client import WalCell, WalClient, WalEntry

ATTACHMENT = Attachment({"t": {f"r{i}": 10 for i in range(4)}})


def guard(regions: dict[str, MetaRegion] | None = None) -> RegionGuard:
    return RegionGuard(lambda: ATTACHMENT, lambda table: regions or {}, lambda table, region: None)


@pytest.fixture
def source() -> Iterator[HBaseSource]:
    source = HBaseSource(guard())
    yield source
    source.close()


def entry(seq: int, region: str = "r1", table: str = "t") -> WalEntry:
    return WalEntry(table, region, seq, (WalCell(b"k", b"d", b"a", seq, value=b"%d" % seq),), write_time=1000)


def polled(source: HBaseSource, limit: int = 1000):
    """Whatever comes next."""
    while True:
        found = source.poll(limit)
        if found:
            return list(found)
        assert source.wait(60), "nothing came"


def test_a_call_is_answered_when_all_of_its_entries_are_acknowledged(source):
    client = WalClient(source.address)
    call = client.ship(entry(11), entry(12), entry(13, "r2"))
    batches = {b.region: b for b in polled(source)}
    assert {r: (b.first, b.last) for r, b in batches.items()} == {"r1": (11, 12), "r2": (13, 13)}
    lag = source.lag()
    assert lag.entries == 3 and lag.bytes and lag.oldest_ms
    second = client.ship(entry(20, "r3"))
    (other,) = polled(source)
    source.acknowledge(batches["r1"])
    source.acknowledge(other)
    assert client.answer() == (second, None)
    source.acknowledge(batches["r2"])
    assert client.answer() == (call, None)
    assert source.lag() == (0, None, 0)


def test_a_region_has_one_batch_under_way(source):
    """HBase sends the next entries of a region when it has an answer; a repetition may come behind it."""
    client = WalClient(source.address)
    calls = [client.ship(entry(11)), client.ship(entry(12))]
    (first,) = polled(source)
    client.ship(entry(20, "r2"))
    (other,) = polled(source)
    assert (first.last, other.region) == (11, "r2")
    source.acknowledge(first)
    assert client.answer() == (calls[0], None)
    (second,) = polled(source)
    assert second.last == 12
    source.acknowledge(first)
    assert source.poll(10) == []
    source.acknowledge(second)
    assert client.answer() == (calls[1], None)


def test_a_poll_takes_about_as_much_as_it_is_told(source):
    client = WalClient(source.address)
    for i in range(4):
        client.ship(entry(11, f"r{i}"))
    found = []
    while len(found) < 4:
        batches = polled(source, 1)
        assert len(batches) == 1
        found += batches
    assert sorted(b.region for b in found) == ["r0", "r1", "r2", "r3"]


def test_a_call_is_not_held_for_ever():
    """After half of its time HBase is asked for a repetition; an acknowledgement that comes late is harmless."""
    source = HBaseSource(guard(), hold=0.2)
    client = WalClient(source.address)
    taken, untaken = client.ship(entry(11)), client.ship(entry(11, "r2"))
    while len(batches := [b for b in polled(source) if b.region == "r1"]) < 1:
        pass
    answers = {client.answer(), client.answer()}
    assert answers == {(taken, BUSY), (untaken, BUSY)}
    again = client.ship(entry(11))
    source.acknowledge(batches[0])
    (repeat,) = polled(source)
    assert (repeat.region, repeat.last) == ("r1", 11)
    source.acknowledge(repeat)
    assert client.answer() == (again, None)
    assert source.repeated == 2
    source.close()


def test_reset_delivers_again(source):
    client = WalClient(source.address)
    call = client.ship(entry(11))
    (first,) = polled(source)
    source.reset()
    (again,) = polled(source)
    assert again is first
    source.acknowledge(again)
    assert client.answer() == (call, None)


def test_entries_that_are_not_meant_for_us_are_answered_and_forgotten(source):
    """From before the attach; of a table that is not attached; of a region that was dropped."""
    client = WalClient(source.address)
    calls = [client.ship(entry(9)), client.ship(entry(11, table="u")), client.ship(entry(99, "dropped"))]
    assert [client.answer() for _ in calls] == [(c, None) for c in calls]
    client.ship(entry(9), entry(10), entry(11))
    (batch,) = polled(source)
    assert (batch.first, batch.last, batch.entries) == (10, 11, 2)
    assert (source.entries, source.ignored) == (6, 4)


def test_a_table_that_was_made_anew_is_a_gap():
    source = HBaseSource(guard({"new": MetaRegion("new", (), 1)}))
    client = WalClient(source.address)
    client.ship(entry(5, "new"))
    (batch,) = polled(source)
    assert (batch.gap, batch.mutations, batch.last) == (MADE_ANEW, 0, 5)
    source.close()


def test_entries_come_again_when_hbase_cannot_be_asked():
    def fail(table: str):
        raise StoreUnavailable("the gateway does not answer")

    source = HBaseSource(RegionGuard(lambda: ATTACHMENT, fail, lambda *_: None))
    client = WalClient(source.address)
    call = client.ship(entry(5, "new"))
    assert client.answer() == (call, BUSY)
    source.close()


def test_what_is_no_region_server_costs_its_connection_alone(source):
    good = WalClient(source.address)
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"HBas\x00\x51....", b"HBas\x00\x50\xff\xff\xff\xff"):
        with socket.create_connection(source.address, 10) as sock:
            sock.sendall(data)
            assert sock.recv(1) == b""
    for data in (b"\x7f\xff\xff\xff", b"\0\0\0\2\xff\xff"):
        bad = WalClient(source.address)
        bad.send(data)
        with pytest.raises(ConnectionError):
            bad.answer()
    assert source.malformed == 5
    call = good.ship(entry(11))
    source.acknowledge(polled(source)[0])
    assert good.answer() == (call, None)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_every_entry_arrives_and_in_order(seed):
    """A region server that repeats what was refused, and a manager that forgets, is slow, and acknowledges at random.

    A watermark per region, as owners keep it, must let every entry through once and in order.
    """
    random = Random(seed)
    source = HBaseSource(guard(), hold=0.05)
    client = WalClient(source.address)
    unsent = {f"r{i}": list(range(11, 11 + random.randint(5, 15))) for i in range(4)}
    wanted = {region: list(seqs) for region, seqs in unsent.items()}
    under_way: dict[int, tuple[str, int]] = {}
    marks = dict.fromkeys(unsent, 0)
    applied: dict[str, list[int]] = {region: [] for region in unsent}
    out: list = []
    while any(unsent.values()):
        busy = {region for region, _ in under_way.values()}
        for region, seqs in unsent.items():
            if seqs and region not in busy:
                count = random.randint(1, min(3, len(seqs)))
                call = client.ship(*(entry(seq, region) for seq in seqs[:count]))
                under_way[call] = (region, count)
        source.wait(0.01)
        out += source.poll(random.choice([1, 1000]))
        if random.random() < 0.1:
            source.reset()
            out.clear()
        random.shuffle(out)
        for batch in out[: random.randint(0, len(out))]:
            for seq in batch.cells.seqs.tolist():
                if seq > marks[batch.region]:
                    applied[batch.region].append(seq)
                    marks[batch.region] = seq
            source.acknowledge(batch)
            out.remove(batch)
        while under_way and source.lag().entries < len(under_way) and random.random() < 0.9:
            call, error = client.answer()
            region, count = under_way.pop(call)
            if error is None:
                assert marks[region] >= unsent[region][count - 1]
                del unsent[region][:count]
    assert applied == wanted
    source.close()
