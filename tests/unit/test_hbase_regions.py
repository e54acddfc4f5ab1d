"""Which regions' entries count. The rows of `hbase:meta` are those of an HBase 2.6."""

from __future__ import annotations

import pytest

from vms.store.base import Version
from vms.stream.hbase_regions import MADE_ANEW, NEVER, Attachment, MetaRegion, RegionGuard, encoded_name, read_meta


def row(**columns: bytes) -> dict[bytes, Version]:
    return {name.replace("__", ":").encode(): Version(value, 1) for name, value in columns.items()}


EIGHT, FOURTEEN = (8).to_bytes(8, "big"), (14).to_bytes(8, "big")
META = [
    (
        b"t1,,1.aaa.",
        row(info__seqnumDuringOpen=EIGHT, info__splitA=b"..", rep_barrier__seqnumDuringOpen=EIGHT),
    ),
    (b"t1,,2.bbb.", row(rep_barrier__parent=b"t1,,1.aaa.", rep_barrier__seqnumDuringOpen=FOURTEEN)),
    (b"t1,m,2.ccc.", row(rep_barrier__parent=b"t1,,1.aaa.", info__seqnumDuringOpen=EIGHT)),
    (
        b"t1,,3.ddd.",
        row(rep_barrier__parent=b"t1,,2.bbb.\xff\x00t1,\xff\xffm,2.ccc.", info__seqnumDuringOpen=FOURTEEN),
    ),
    (b"t1", row(table__state=b"\x08\x00")),
]


def test_hbase_meta_is_read():
    assert read_meta(META) == {
        "aaa": MetaRegion("aaa", (), None),
        "bbb": MetaRegion("bbb", ("aaa",), None),
        "ccc": MetaRegion("ccc", ("aaa",), 8),
        "ddd": MetaRegion("ddd", ("bbb", "ccc"), 14),
    }


def test_region_names():
    assert encoded_name(b"t,a.b,c,17.0f.") == "0f"
    assert encoded_name(b"t") is None


def test_the_floors_of_an_attach():
    floors = Attachment.floors(read_meta(META))
    assert floors == {"aaa": NEVER, "bbb": NEVER, "ccc": 8, "ddd": 14}
    attachment = Attachment({"t1": floors})
    assert Attachment.from_bytes(attachment.to_bytes()) == attachment


class Guarded:
    """A guard that notes what it remembers, over an attachment and a meta table that change."""

    def __init__(self, floors: dict[str, int]) -> None:
        self.tables = {"t": floors}
        self.regions: dict[str, MetaRegion] = {}
        self.guard = RegionGuard(lambda: Attachment(self.tables), lambda table: self.regions, self._remember)

    def _remember(self, table: str, region: str) -> None:
        self.tables[table] = {**self.tables[table], region: 0}

    def add(self, name: str, *parents: str) -> None:
        self.regions[name] = MetaRegion(name, parents, 1)


def test_daughters_and_merged_regions_count_from_their_beginning():
    """Through several generations; the ones in between may be gone when the guard is made again."""
    g = Guarded({"a": 10, "z": 10})
    g.add("b", "a")
    g.add("c", "b")
    g.add("d", "c", "z")
    assert g.guard.verdict("t", "a") == (10, None)
    assert g.guard.verdict("t", "d") == (0, None)
    del g.regions["b"], g.regions["c"]
    g.add("e", "d")
    again = RegionGuard(lambda: Attachment(g.tables), lambda table: g.regions, g._remember)
    assert again.verdict("t", "e") == (0, None)


def test_regions_of_a_dropped_table_never_count():
    g = Guarded({"a": 10})
    assert g.guard.verdict("t", "gone") == (NEVER, None)


def test_a_table_that_was_made_anew_says_so_until_it_is_attached_again():
    g = Guarded({"a": 10})
    g.add("new")
    g.add("daughter", "new")
    assert g.guard.verdict("t", "new") == (NEVER, MADE_ANEW)
    assert g.guard.verdict("t", "daughter") == (NEVER, MADE_ANEW)
    g.tables["t"] = {"new": 2, "daughter": 9}
    assert g.guard.verdict("t", "daughter") == (9, None)


def test_a_table_counts_as_soon_as_it_is_attached():
    g = Guarded({"a": 10})
    assert g.guard.verdict("u", "x") == (NEVER, None)
    g.tables["u"] = {"x": 3}
    assert g.guard.verdict("u", "x") == (3, None)


def test_what_cannot_be_remembered_is_not_accepted():
    """Or a crash would make a stranger of a daughter whose parent HBase forgot."""
    g = Guarded({"a": 10})
    g.add("b", "a")

    def fail(table: str, region: str) -> None:
        raise ConnectionError

    strict = RegionGuard(lambda: Attachment(g.tables), lambda table: g.regions, fail)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            strict.verdict("t", "b")
