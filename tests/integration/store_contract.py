"""What every store must do, written against the protocols of vms/store/base.py alone.

A store is tested by a subclass of these in a test file of its own, with a fixture `store` that gives an empty
one. Where HBase leaves the outcome to the time of its flushes, no case goes: one-version deletes and reads
below a delete are tested with families that keep enough versions and deleted cells.
"""

from __future__ import annotations

from threading import Event, Thread

import pytest

from vms.errors import AlreadyExists, InvalidValue, StoreError, TableMissing
from vms.store.base import (
    DELETE_COLUMN,
    DELETE_ROW,
    DELETE_VERSION,
    PUT,
    Cell,
    Entry,
    Family,
    KVStore,
    Mutation,
    Row,
    StreamStore,
    Version,
)

KEEPING = Family(versions=20, keep_deleted=True)
A, B, C = b"f:a", b"f:b", b"f:c"


def put(row: bytes, ts: int, **values: bytes) -> Mutation:
    return Mutation(row, tuple(Cell(b"f:" + name.encode(), ts, PUT, value) for name, value in values.items()))


def row_delete(row: bytes, ts: int) -> Mutation:
    return Mutation(row, (Cell(b"f:", ts, DELETE_ROW),))


def column_delete(row: bytes, ts: int, column: bytes = A) -> Mutation:
    return Mutation(row, (Cell(column, ts, DELETE_COLUMN),))


def version_delete(row: bytes, ts: int, column: bytes = A) -> Mutation:
    return Mutation(row, (Cell(column, ts, DELETE_VERSION),))


def values(row: Row | None) -> dict[bytes, bytes] | None:
    return None if row is None else {column: version.value for column, version in row.items()}


def stamps(versions: list[Version]) -> list[int]:
    return [version.ts for version in versions]


class StoreContract:
    """Rows, versions, deletes, ranges, tables: `KVStore`."""

    @pytest.fixture
    def t(self, store: KVStore) -> KVStore:
        store.create_table("t", {"f": KEEPING})
        return store

    def test_a_put_is_read_back_with_its_timestamps(self, t: KVStore) -> None:
        t.mutate("t", [Mutation(b"r", (Cell(A, 5, PUT, b"one"), Cell(B, 7, PUT, b"two")))])
        assert t.get("t", b"r") == {A: Version(b"one", 5), B: Version(b"two", 7)}
        assert t.get("t", b"other") is None

    def test_a_put_of_some_columns_leaves_the_others(self, t: KVStore) -> None:
        t.mutate("t", [put(b"r", 1, a=b"1", b=b"1")])
        t.mutate("t", [put(b"r", 2, b=b"2", c=b"2")])
        assert values(t.get("t", b"r")) == {A: b"1", B: b"2", C: b"2"}
        assert values(t.get("t", b"r", columns=[C, A])) == {A: b"1", C: b"2"}
        assert t.get("t", b"r", columns=[b"f:none"]) is None

    def test_an_older_timestamp_loses_and_of_equal_ones_the_later_arrival_wins(self, t: KVStore) -> None:
        t.mutate("t", [put(b"r", 5, a=b"five")])
        t.mutate("t", [put(b"r", 4, a=b"four")])
        assert values(t.get("t", b"r")) == {A: b"five"}
        t.mutate("t", [put(b"r", 5, a=b"five again")])
        assert values(t.get("t", b"r")) == {A: b"five again"}

    def test_a_row_named_twice_in_one_call_is_changed_in_order(self, t: KVStore) -> None:
        t.mutate("t", [put(b"r", 1, a=b"first", b=b"b"), put(b"q", 1, a=b"q"), put(b"r", 1, a=b"second")])
        assert values(t.get("t", b"r")) == {A: b"second", B: b"b"}
        t.mutate("t", [row_delete(b"r", 2), put(b"r", 3, c=b"new")])
        assert values(t.get("t", b"r")) == {C: b"new"}

    def test_empty_values_and_qualifiers_and_large_ones(self, t: KVStore) -> None:
        large = bytes(range(256)) * 4096
        cells = Cell(A, 1, PUT, b""), Cell(b"f:", 1, PUT, b"x"), Cell(B, 1, PUT, large)
        t.mutate("t", [Mutation(b"r", cells)])
        assert values(t.get("t", b"r")) == {A: b"", b"f:": b"x", B: large}

    @pytest.mark.parametrize("backwards", [False, True])
    @pytest.mark.parametrize(
        "mutations, seen",
        [
            ([put(b"r", 3, a=b"3"), row_delete(b"r", 3)], []),
            ([put(b"r", 4, a=b"4"), row_delete(b"r", 3), put(b"r", 2, a=b"2")], [4]),
            ([put(b"r", 3, a=b"3"), put(b"r", 5, a=b"5"), column_delete(b"r", 3)], [5]),
            ([put(b"r", 3, a=b"3"), put(b"r", 5, a=b"5"), version_delete(b"r", 5)], [3]),
            ([put(b"r", 3, a=b"3"), put(b"r", 5, a=b"5"), version_delete(b"r", 4)], [5, 3]),
            ([put(b"r", 3, a=b"3"), column_delete(b"r", 9, B)], [3]),
            ([put(b"r", 6, a=b"6"), column_delete(b"r", 4), row_delete(b"r", 2)], [6]),
        ],
    )
    def test_deletes_hide_whatever_the_order(
        self, t: KVStore, mutations: list[Mutation], seen: list[int], backwards: bool
    ) -> None:
        for mutation in reversed(mutations) if backwards else mutations:
            t.mutate("t", [mutation])
        assert stamps(t.versions("t", b"r", A)) == seen
        assert t.get("t", b"r") == ({A: Version(b"%d" % seen[0], seen[0])} if seen else None)
        assert [row for row, _ in t.scan("t")] == ([b"r"] if seen else [])

    def test_a_delete_of_one_family_leaves_the_other(self, store: KVStore) -> None:
        store.create_table("t", {"f": Family(), "g": Family()})
        store.mutate("t", [Mutation(b"r", (Cell(A, 1, PUT, b"f"), Cell(b"g:a", 1, PUT, b"g")))])
        store.mutate("t", [row_delete(b"r", 2)])
        assert values(store.get("t", b"r")) == {b"g:a": b"g"}

    def test_versions_come_newest_first_up_to_limit_and_bound(self, t: KVStore) -> None:
        for ts in (2, 8, 4, 6):
            t.mutate("t", [put(b"r", ts, a=b"%d" % ts)])
        assert t.versions("t", b"r", A) == [Version(b"%d" % ts, ts) for ts in (8, 6, 4, 2)]
        assert stamps(t.versions("t", b"r", A, limit=2)) == [8, 6]
        assert stamps(t.versions("t", b"r", A, before=8)) == [6, 4, 2]
        assert stamps(t.versions("t", b"r", A, before=7, limit=1)) == [6]
        assert t.versions("t", b"r", B) == [] and t.versions("t", b"none", A) == []

    def test_no_more_versions_are_given_than_the_family_keeps(self, store: KVStore) -> None:
        store.create_table("t", {"f": Family(versions=3)})
        for ts in range(1, 30):
            store.mutate("t", [put(b"r", ts, a=b"v")])
        assert stamps(store.versions("t", b"r", A)) == [29, 28, 27]

    def test_a_bound_is_exclusive_and_leaves_out_later_deletes(self, t: KVStore) -> None:
        t.mutate("t", [put(b"r", 10, a=b"10")])
        t.mutate("t", [row_delete(b"r", 20)])
        t.mutate("t", [put(b"r", 30, a=b"30")])
        seen = {bound: values(t.get("t", b"r", before=bound)) for bound in (10, 11, 20, 21, 30, 31)}
        assert seen == {10: None, 11: {A: b"10"}, 20: {A: b"10"}, 21: None, 30: None, 31: {A: b"30"}}
        assert {bound: [values(row) for _, row in t.scan("t", before=bound)] for bound in (20, 21, 31)} == {
            20: [{A: b"10"}],
            21: [],
            31: [{A: b"30"}],
        }

    def test_scan_gives_binary_keys_in_byte_order_within_its_range(self, t: KVStore) -> None:
        keys = [b"\x00", b"\x00\x00", b"\x00\x01", b"\x00\xff", b"\x01", b"a", b"a\x00", b"a\x00\x00"]
        keys += [b"a\x00b", b"a\x01", b"aa", b"b", b"\xfe\xff", b"\xff", b"\xff\x00", b"\xff\xff", b"\xff\xff\xff"]
        t.mutate("t", [put(key, 1, a=key) for key in sorted(keys, reverse=True)])
        assert [row for row, _ in t.scan("t")] == sorted(keys)
        for start in [b"", b"a\x00\x00\x00", *keys]:
            for stop in [b"", b"0", *keys]:
                inside = [key for key in sorted(keys) if start <= key and (not stop or key < stop)]
                assert [row for row, _ in t.scan("t", start, stop)] == inside
        for key in keys:
            assert values(t.get("t", key)) == {A: key}

    def test_scan_of_columns_leaves_out_rows_without_them(self, t: KVStore) -> None:
        t.mutate("t", [put(b"1", 1, a=b"1"), put(b"2", 1, b=b"2"), put(b"3", 1, a=b"3", b=b"3")])
        assert [(row, values(found)) for row, found in t.scan("t", columns=[B])] == [
            (b"2", {B: b"2"}),
            (b"3", {B: b"3"}),
        ]

    def test_scan_of_many_rows(self, t: KVStore) -> None:
        keys = [b"%06d" % i for i in range(5000)]
        t.mutate("t", [put(key, 1, a=key) for key in keys])
        assert [row for row, _ in t.scan("t")] == keys
        assert [row for row, _ in t.scan("t", b"001000", b"003500")] == keys[1000:3500]

    def test_tables_do_not_mix(self, store: KVStore) -> None:
        for name in ("one", "two", "ns:three"):
            store.create_table(name, {"f": Family()})
            store.mutate(name, [put(b"r", 1, a=name.encode())])
        assert store.tables() == ["ns:three", "one", "two"]
        for name in store.tables():
            assert [(row, values(found)) for row, found in store.scan(name)] == [(b"r", {A: name.encode()})]

    def test_a_table_made_again_is_empty(self, store: KVStore) -> None:
        store.create_table("t", {"f": Family()}, [b"m"])
        store.mutate("t", [put(b"r", 9, a=b"old"), row_delete(b"q", 9)])
        before = store.regions("t")
        store.drop_table("t")
        assert store.tables() == []
        store.create_table("t", {"f": Family()})
        assert list(store.scan("t")) == []
        store.mutate("t", [put(b"q", 1, a=b"new")])
        assert values(store.get("t", b"q")) == {A: b"new"}
        assert not {region.id for region in before} & {region.id for region in store.regions("t")}

    def test_a_table_that_is_missing_is_named(self, store: KVStore) -> None:
        calls = [
            lambda: store.mutate("gone", [put(b"r", 1, a=b"1")]),
            lambda: store.get("gone", b"r"),
            lambda: store.versions("gone", b"r", A),
            lambda: store.scan("gone"),
            lambda: store.regions("gone"),
            lambda: store.split("gone", b"k"),
            lambda: store.drop_table("gone"),
        ]
        for call in calls:
            with pytest.raises(TableMissing, match="gone"):
                call()

    def test_what_cannot_be_is_refused(self, t: KVStore) -> None:
        with pytest.raises(AlreadyExists, match="t"):
            t.create_table("t", {"f": Family()})
        for name in ("", "a b", "a/b", ".a", "ä"):
            with pytest.raises(InvalidValue):
                t.create_table(name, {"f": Family()})
        with pytest.raises(InvalidValue):
            t.create_table("u", {})
        with pytest.raises(InvalidValue):
            t.create_table("u", {"f": Family()}, [b"a", b"a"])
        for bad in (
            Mutation(b"", (Cell(A, 1, PUT, b"x"),)),
            Mutation(b"r", ()),
            Mutation(b"r", (Cell(A, -1, PUT, b"x"),)),
            Mutation(b"r", (Cell(A, 1 << 63, PUT, b"x"),)),
        ):
            with pytest.raises(InvalidValue):
                t.mutate("t", [put(b"good", 1, a=b"x"), bad])
        with pytest.raises(StoreError, match="none:a"):
            t.mutate("t", [put(b"good", 1, a=b"x"), Mutation(b"r", (Cell(b"none:a", 1, PUT, b"x"),))])
        assert list(t.scan("t")) == []
        assert t.tables() == ["t"]

    def test_no_mutations_change_nothing(self, t: KVStore) -> None:
        assert t.mutate("t", []) == {}

    def test_regions_cover_all_keys_and_split(self, store: KVStore) -> None:
        store.create_table("t", {"f": Family()}, [b"m", b"g"])
        assert [(r.start, r.stop) for r in store.regions("t")] == [(b"", b"g"), (b"g", b"m"), (b"m", b"")]
        store.mutate("t", [put(key, 1, a=key) for key in (b"a", b"h", b"k", b"z")])
        before = {region.id for region in store.regions("t")}
        store.split("t", b"i")
        after = store.regions("t")
        assert [(r.start, r.stop) for r in after] == [(b"", b"g"), (b"g", b"i"), (b"i", b"m"), (b"m", b"")]
        assert len({region.id for region in after} - before) == 2
        assert [row for row, _ in store.scan("t")] == [b"a", b"h", b"k", b"z"]
        with pytest.raises(InvalidValue):
            store.split("t", b"i")

    def test_a_scan_under_way_sees_no_later_write(self, t: KVStore) -> None:
        t.mutate("t", [put(b"%04d" % i, 1, a=b"1") for i in range(3000)])
        scan = t.scan("t")
        seen = [next(scan)]
        t.mutate("t", [row_delete(b"%04d" % i, 2) for i in range(3000)])
        seen.extend(scan)
        assert len(seen) == 3000


class StreamContract:
    """Positions, snapshots and the change stream: `StreamStore`."""

    @pytest.fixture
    def t(self, store: StreamStore) -> StreamStore:
        store.create_table("t", {"f": Family()}, stream=True)
        return store

    def test_sequence_ids_rise_per_region_and_above_the_parents(self, store: StreamStore) -> None:
        store.create_table("t", {"f": Family()}, [b"m"])
        low, high = (region.id for region in store.regions("t"))
        first = store.mutate("t", [put(b"a", 1, a=b"1"), put(b"z", 1, a=b"1")])
        second = store.mutate("t", [put(b"z", 2, a=b"2")])
        assert first.keys() == {low, high} and second.keys() == {high}
        assert second[high] > first[high]
        store.split("t", b"t")
        third = store.mutate("t", [put(b"o", 3, a=b"3"), put(b"z", 3, a=b"3")])
        assert third.keys() == {region.id for region in store.regions("t")[1:]}
        assert min(third.values()) > second[high]

    def test_a_snapshot_does_not_move(self, t: StreamStore) -> None:
        t.mutate("t", [put(b"a", 1, a=b"1"), put(b"b", 1, a=b"1")])
        snapshot = t.snapshot("t")
        for ts in range(2, 40):
            t.mutate("t", [put(b"a", ts, a=b"x"), row_delete(b"b", ts), put(b"c%d" % ts, ts, a=b"x")])
        for _ in range(2):
            assert {row: values(found) for row, found in snapshot.scan()} == {b"a": {A: b"1"}, b"b": {A: b"1"}}
            assert [row for row, _ in snapshot.scan(b"b")] == [b"b"]
        snapshot.close()
        assert len(list(t.scan("t"))) == 39
        with pytest.raises(TableMissing, match="gone"):
            t.snapshot("gone")

    @staticmethod
    def region(store: StreamStore, row: bytes = b"r") -> str:
        return next(r.id for r in store.regions("t") if r.start <= row and (not r.stop or row < r.stop))

    def test_entries_are_the_calls_in_order(self, t: StreamStore) -> None:
        region = self.region(t)
        calls = [
            [put(b"r", 1, a=b"1", b=b"")],
            [row_delete(b"r", 2), put(b"q", 2, a=b"2"), put(b"r", 3, a=b"3"), put(b"r", 3, a=b"4")],
            [column_delete(b"r", 5), version_delete(b"r", 4)],
        ]
        seqs = [t.mutate("t", call)[region] for call in calls]
        assert t.read_stream(region, 0, 100) == [Entry(seq, tuple(call)) for seq, call in zip(seqs, calls)]
        assert [entry.seq for entry in t.read_stream(region, seqs[0], 100)] == seqs[1:]
        assert t.read_stream(region, seqs[-1], 100) == []

    def test_a_limit_counts_mutations_and_never_cuts_an_entry(self, t: StreamStore) -> None:
        region = self.region(t)
        for call in range(4):
            t.mutate("t", [put(b"r%d" % i, call, a=b"x") for i in range(10)])
        assert [len(t.read_stream(region, 0, limit)) for limit in (1, 10, 19, 20, 400)] == [1, 1, 1, 2, 4]

    def test_only_tables_that_ask_for_it_have_a_stream(self, t: StreamStore) -> None:
        t.create_table("quiet", {"f": Family()})
        written = t.mutate("quiet", [put(b"r", 1, a=b"1")])
        assert t.stream_regions() == []
        assert all(t.read_stream(region, 0, 100) == [] for region in written)
        t.mutate("t", [put(b"r", 1, a=b"1")])
        assert [region.table for region in t.stream_regions()] == ["t"]

    def test_what_is_acknowledged_is_gone_and_the_rest_is_read_again(self, t: StreamStore) -> None:
        region = self.region(t)
        assert t.acknowledged(region) == 0
        seqs = [t.mutate("t", [put(b"r", ts, a=b"x")])[region] for ts in range(1, 6)]
        t.acknowledge(region, seqs[2])
        assert t.acknowledged(region) == seqs[2]
        for _ in range(2):
            assert [entry.seq for entry in t.read_stream(region, 0, 100)] == seqs[3:]
        t.acknowledge(region, seqs[0])
        assert t.acknowledged(region) == seqs[2]
        with pytest.raises(StoreError):
            t.acknowledge(region, seqs[-1] + 1)
        t.acknowledge(region, seqs[-1])
        assert t.stream_regions() == [] and t.read_stream(region, 0, 100) == []
        later = t.mutate("t", [put(b"r", 9, a=b"x")])[region]
        assert later > seqs[-1] and [entry.seq for entry in t.read_stream(region, 0, 100)] == [later]

    def test_each_region_has_its_part_of_a_call(self, store: StreamStore) -> None:
        store.create_table("t", {"f": Family()}, [b"m"], stream=True)
        store.mutate("t", [put(b"z", 1, a=b"z"), put(b"a", 1, a=b"a"), put(b"n", 1, a=b"n")])
        parts = {
            region.start: [m.row for m in store.read_stream(region.id, 0, 100)[0].mutations]
            for region in store.stream_regions()
        }
        assert parts == {b"": [b"a"], b"m": [b"z", b"n"]}

    def test_a_split_region_is_read_to_its_end_before_its_daughters(self, t: StreamStore) -> None:
        parent = self.region(t)
        t.mutate("t", [put(b"a", 1, a=b"1"), put(b"z", 1, a=b"1")])
        last = t.mutate("t", [put(b"z", 2, a=b"2")])[parent]
        t.split("t", b"m")
        t.mutate("t", [put(b"z", 3, a=b"3")])
        t.split("t", b"t")
        t.mutate("t", [put(b"a", 4, a=b"4"), put(b"z", 4, a=b"4")])
        order = [(region.start, region.stop) for region in t.stream_regions()]
        assert order[0] == (b"", b"") and order.index((b"m", b"")) < order.index((b"t", b""))
        assert set(order) == {(b"", b""), (b"", b"m"), (b"m", b""), (b"t", b"")}
        read: list[int] = []
        while regions := t.stream_regions():
            entries = t.read_stream(regions[0].id, t.acknowledged(regions[0].id), 1)
            read.extend(m.cells[0].ts for entry in entries for m in entry.mutations if m.row == b"z")
            assert entries[0].seq > last or regions[0].id == parent
            t.acknowledge(regions[0].id, entries[-1].seq)
        assert read == [1, 2, 3, 4]
        assert t.read_stream(parent, 0, 100) == []
        t.acknowledge(parent, last)

    def test_a_split_of_a_region_that_was_read_leaves_no_parent(self, t: StreamStore) -> None:
        parent = self.region(t)
        t.acknowledge(parent, t.mutate("t", [put(b"r", 1, a=b"1")])[parent])
        t.split("t", b"m")
        t.mutate("t", [put(b"r", 2, a=b"2")])
        assert [region.id for region in t.stream_regions()] == [self.region(t)]

    def test_a_dropped_table_has_no_stream(self, t: StreamStore) -> None:
        region = self.region(t)
        seq = t.mutate("t", [put(b"r", 1, a=b"1")])[region]
        t.split("t", b"m")
        t.mutate("t", [put(b"r", 2, a=b"2")])
        t.drop_table("t")
        assert t.stream_regions() == [] and t.read_stream(region, 0, 10) == []
        t.acknowledge(region, seq)
        t.create_table("t", {"f": Family()}, stream=True)
        assert t.stream_regions() == []

    def test_a_snapshot_is_exactly_the_stream_up_to_its_positions(self, store: StreamStore) -> None:
        """While a writer goes on: replaying the stream up to the positions gives the rows of the snapshot."""
        store.create_table("t", {"f": Family()}, [b"5"], stream=True)
        stop, failures = Event(), []

        def write() -> None:
            try:
                ts = 0
                while not stop.is_set():
                    ts += 1
                    rows = [b"%d" % ((ts * k) % 10) for k in (1, 3, 7)]
                    change = row_delete if ts % 5 == 0 else lambda row, at: put(row, at, a=b"%d" % at)
                    store.mutate("t", [change(row, ts) for row in dict.fromkeys(rows)])
            except Exception as error:
                failures.append(error)

        writer = Thread(target=write)
        writer.start()
        try:
            for _ in range(5):
                snapshot = store.snapshot("t")
                expected: dict[bytes, bytes] = {}
                for region, position in snapshot.positions.items():
                    for entry in store.read_stream(region, 0, 1 << 30):
                        for row, cells in entry.mutations if entry.seq <= position else ():
                            if cells[0].kind == PUT:
                                expected[row] = cells[0].value
                            else:
                                expected.pop(row, None)
                assert {row: found[A].value for row, found in snapshot.scan()} == expected
                snapshot.close()
        finally:
            stop.set()
            writer.join()
        assert failures == []
