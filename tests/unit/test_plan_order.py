"""Plans of views with an order: first rows and windows, where they are found, and by which columns ties are broken."""

from __future__ import annotations

import pytest
from plan_tables import TABLES

from vms.model.order import SortKey
from vms.plan.explain import explain
from vms.plan.frontend import ViewPlan, plan_view
from vms.plan.plan import Exchange, Frame, Node, TopK, Window


def planned(sql: str) -> ViewPlan:
    return plan_view("v", sql, TABLES)


def nodes(view: ViewPlan, *kinds: type) -> list[Node]:
    return [n for n in view.plan.nodes if isinstance(n.spec, kinds)]


def test_every_member_finds_its_first_rows_and_only_these_travel() -> None:
    view = planned("SELECT k, i FROM t ORDER BY i DESC LIMIT 3 OFFSET 2")
    order = (SortKey(1, descending=True, nulls_first=True),)
    assert [n.spec for n in nodes(view, TopK, Exchange)] == [
        TopK(order, 0, 5),
        Exchange(()),
        TopK(order, 2, 3),
        Exchange((0,)),
    ]


def test_rows_that_do_not_tell_where_they_lie_are_spread_by_all_columns() -> None:
    view = planned("SELECT i, s FROM t ORDER BY i LIMIT 3")
    assert next(n.spec for n in nodes(view, Exchange)) == Exchange((0, 1))


def test_rows_in_one_place_are_looked_at_once() -> None:
    view = planned("SELECT n FROM (SELECT count(*) AS n FROM t) c ORDER BY n LIMIT 3")
    assert len(nodes(view, TopK)) == 1


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT s, k FROM t ORDER BY i LIMIT 3", ["s", "k", "i"]),
        ("SELECT k + 1 AS a, s FROM t ORDER BY i, a LIMIT 3", ["k + 1", "s", "i"]),
        ("SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY max(k) LIMIT 3", ["s", "count(*)", "max(k)"]),
        # what nothing reads further up takes no part
        ("SELECT s FROM (SELECT k, s, b FROM t ORDER BY i LIMIT 3) q", ["s", "i"]),
    ],
)
def test_ties_are_broken_by_the_columns_of_the_select(sql: str, columns: list[str]) -> None:
    last = nodes(planned(sql), TopK)[-1]
    assert [f.name for f in last.fields] == columns
    assert isinstance(last.spec, TopK) and last.spec.order[0].column == columns.index(
        "i" if "i" in columns else "max(k)"
    )


def test_one_row_needs_no_key() -> None:
    output = planned("SELECT s, i FROM t ORDER BY i LIMIT 1").plan.outputs["v"]
    assert output.spec.key == ()


def test_the_notes_tell_what_an_order_does() -> None:
    assert "no effect" in planned("SELECT k FROM t ORDER BY k").notes[0]
    assert "which rows are first" in planned("SELECT k FROM t ORDER BY k LIMIT 1").notes[0]
    assert "without ORDER BY" in planned("SELECT k FROM t LIMIT 1").notes[0]


def test_explain_names_places_and_order() -> None:
    text = explain(planned("SELECT k, i FROM t ORDER BY i DESC NULLS LAST, k LIMIT 3 OFFSET 2"))
    assert "TopK places 1 to 5 by (i DESC NULLS LAST, k)  [round 0]" in text
    assert "TopK places 3 to 5 by (i DESC NULLS LAST, k)  [round 1]" in text
    assert "first rows to one place" in text


# --- windows


def windows(sql: str) -> list[Window]:
    return [n.spec for n in nodes(planned(sql), Window) if isinstance(n.spec, Window)]


def test_rows_of_a_partition_meet_at_one_member() -> None:
    view = planned("SELECT k, rank() OVER (PARTITION BY i ORDER BY b) AS r FROM t")
    assert [[n.fields[c].name for c in n.spec.key] for n in nodes(view, Exchange)] == [["i"], ["k"]]
    view = planned("SELECT k, i, rank() OVER (PARTITION BY k, i ORDER BY b) AS r FROM t")
    assert not nodes(view, Exchange)


def test_windows_with_one_order_are_one_operation() -> None:
    (window,) = windows(
        "SELECT k, rank() OVER w AS r, sum(b) OVER w AS z FROM t WINDOW w AS (PARTITION BY i ORDER BY b)"
    )
    assert [c.function for c in window.calls] == ["rank", "sum"]


def test_calls_that_nobody_reads_are_left_out() -> None:
    assert not windows("SELECT k FROM (SELECT k, rank() OVER (ORDER BY i) AS r FROM t) q")


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("ORDER BY b", Frame(False, None, 0)),
        ("", Frame(True, None, None)),
        ("ORDER BY b ROWS 2 PRECEDING", Frame(True, -2, 0)),
        ("ORDER BY b ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING", Frame(True, 1, None)),
        ("ORDER BY i RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING", Frame(False, -2, 3)),
        ("ORDER BY d RANGE BETWEEN 1.5 PRECEDING AND CURRENT ROW", Frame(False, -150, 0)),
        ("ORDER BY dt RANGE BETWEEN INTERVAL '7' DAY PRECEDING AND CURRENT ROW", Frame(False, -7, 0)),
        ("ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW", Frame(False, -3_600_000_000, 0)),
    ],
)
def test_frames_are_distances_of_codes(frame: str, expected: Frame) -> None:
    """Also those that DataFusion exports without their bounds."""
    (window,) = windows(f"SELECT k, max(k) OVER (PARTITION BY s {frame}) AS m FROM t")
    assert window.calls[0].frame == expected


def test_each_call_keeps_its_own_frame() -> None:
    """Windows of both sides of a join, and one above: the frames are found in the order of the tree."""
    side = "SELECT k, sum(b) OVER (ORDER BY k ROWS {} PRECEDING) AS z FROM t"
    found = windows(
        f"SELECT l.k, sum(l.z) OVER (ORDER BY r.z ROWS 3 PRECEDING) AS y, l.z, r.z AS rz "
        f"FROM ({side.format(1)}) l JOIN ({side.format(2)}) r ON l.k = r.k"
    )
    assert [w.calls[0].frame.start for w in found] == [-1, -2, -3]


def test_numbered_rows_have_a_key() -> None:
    output = planned("SELECT s, row_number() OVER (PARTITION BY s ORDER BY b) AS n FROM t").plan.outputs["v"]
    assert output.spec.key == (0, 1)


def test_explain_shows_windows_with_order_and_frame() -> None:
    text = explain(planned("SELECT k, avg(b) OVER (PARTITION BY i ORDER BY d RANGE 1.5 PRECEDING) AS a FROM t"))
    assert "Window avg(b) RANGE 1.50 PRECEDING TO CURRENT ROW by (i) order (d)" in text
