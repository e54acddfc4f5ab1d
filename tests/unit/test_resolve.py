"""Version resolution, case by case; random histories are in tests/property/test_embedded_store.py."""

from __future__ import annotations

import pytest

from vms.store.base import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT, Cell, Family
from vms.store.resolve import expire, gather, merge, newest, visible

A, B, FAMILY = b"f:a", b"f:b", b"f:"
DAY = 86_400_000


def put(ts: int, value: bytes = b"v", column: bytes = A) -> Cell:
    return Cell(column, ts, PUT, value)


def row_delete(ts: int) -> Cell:
    return Cell(FAMILY, ts, DELETE_ROW)


def column_delete(ts: int, column: bytes = A) -> Cell:
    return Cell(column, ts, DELETE_COLUMN)


def version_delete(ts: int, column: bytes = A) -> Cell:
    return Cell(column, ts, DELETE_VERSION)


def timestamps(cells: list[Cell], bound: int = 1 << 62) -> list[int]:
    return [version.ts for version in visible(gather(cells), A, bound)]


def merged(cells: list[Cell], family: Family, now_ms: int = 0) -> list[Cell]:
    return list(merge(gather(cells), {FAMILY: family}, now_ms))


@pytest.mark.parametrize(
    "cells, seen",
    [
        ([put(1), put(3), put(2)], [3, 2, 1]),
        ([put(1), row_delete(1)], []),
        ([row_delete(1), put(1)], []),
        ([put(2), row_delete(1)], [2]),
        ([put(1), put(2), column_delete(1)], [2]),
        ([put(1), put(2), version_delete(2)], [1]),
        ([version_delete(2), put(2), put(1)], [1]),
        ([put(1), put(2), version_delete(1)], [2]),
        ([put(1), column_delete(5, B)], [1]),
        ([put(5), column_delete(3), row_delete(4), put(4)], [5]),
    ],
)
def test_deletes_hide_in_any_order_of_arrival(cells: list[Cell], seen: list[int]) -> None:
    assert timestamps(cells) == seen
    assert timestamps(cells[::-1]) == seen


def test_of_equal_timestamps_the_later_arrival_wins() -> None:
    assert newest(gather([put(1, b"first"), put(1, b"second")]))[A].value == b"second"


def test_a_bound_excludes_itself_for_puts_and_deletes() -> None:
    cells = [put(1), put(5), row_delete(3), put(9)]
    assert timestamps(cells, 9) == [5]
    assert timestamps(cells, 5) == []
    assert timestamps(cells, 4) == []
    assert timestamps(cells, 3) == [1]
    assert timestamps(cells, 1) == []


def test_newest_takes_the_columns_asked_for() -> None:
    history = gather([put(1), put(2, column=B)])
    assert newest(history).keys() == {A, B}
    assert newest(history, columns=[B, b"f:none"]).keys() == {B}


def test_expired_puts_are_hidden_except_the_newest_versions() -> None:
    cells = [put(ts) for ts in (1, 2, 3, 100)]
    for spared, seen in ((0, [100]), (2, [100, 3]), (9, [100, 3, 2, 1])):
        history = gather(cells)
        expire(history, {FAMILY: Family(versions=9, min_versions=spared, ttl_ms=50)}, now_ms=120)
        assert [v.ts for v in visible(history, A)] == seen


def test_merge_keeps_one_version_and_the_newest_tombstone_of_a_base_row() -> None:
    cells = [put(1), row_delete(2), put(3), row_delete(4), put(5), put(6)]
    assert merged(cells, Family()) == [row_delete(4), put(6)]


def test_merged_tombstones_hide_late_puts() -> None:
    cells = merged([put(1), row_delete(7), column_delete(9)], Family())
    assert cells == [row_delete(7), column_delete(9)]
    assert timestamps([*cells, put(9)]) == []
    assert timestamps([*cells, put(10)]) == [10]


def test_a_row_tombstone_absorbs_older_ones() -> None:
    assert merged([put(1), column_delete(3), version_delete(2), row_delete(4)], Family()) == [row_delete(4)]


def test_a_put_named_by_a_version_delete_takes_no_place_among_the_versions() -> None:
    cells = merged([put(5), version_delete(5), put(3)], Family())
    assert timestamps(cells) == [3]
    assert timestamps([*cells, put(5)]) == [3]


def test_view_rows_stay_readable_at_older_epochs() -> None:
    family = Family(versions=3, min_versions=3, ttl_ms=DAY, keep_deleted=True)
    cells = [put(10), row_delete(20), put(30), put(40), row_delete(50), put(60)]
    kept = merged(cells, family, now_ms=100)
    assert [c.ts for c in kept if c.kind == PUT] == [30, 40, 60]
    for bound in range(31, 70):
        assert timestamps(kept, bound) == [ts for ts in timestamps(cells, bound) if ts >= 30]


def test_a_value_overwritten_just_now_is_kept_though_it_is_older_than_the_ttl() -> None:
    family = Family(versions=3, min_versions=3, ttl_ms=DAY, keep_deleted=True)
    now = 10 * DAY
    kept = merged([put(1), put(now - 5)], family, now)
    assert timestamps(kept, now - 5) == [1]


def test_deletes_do_not_pile_up_however_often_a_view_row_comes_and_goes() -> None:
    family = Family(versions=4, min_versions=4, ttl_ms=DAY, keep_deleted=True)
    cells: list[Cell] = []
    for epoch in range(0, 4000, 2):
        cells = merged([*cells, put(epoch), row_delete(epoch + 1)], family)
    assert len(cells) <= 3 * 4
    assert timestamps(cells) == [] and timestamps(cells, 3999) == [3998]


def test_a_deleted_row_vanishes_with_the_ttl() -> None:
    family = Family(versions=3, min_versions=3, ttl_ms=DAY, keep_deleted=True)
    cells = [put(10), put(20, column=B), row_delete(30), version_delete(5)]
    assert timestamps(merged(cells, family, now_ms=30 + DAY), 30) == [10]
    assert merged(cells, family, now_ms=31 + DAY) == []
    assert merged(cells, Family(), now_ms=99 * DAY) == [row_delete(30)]
