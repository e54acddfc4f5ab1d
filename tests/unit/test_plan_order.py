"""Plans of views with an order: where the first rows are found, and by which columns ties are broken."""

from __future__ import annotations

import pytest
from plan_tables import TABLES

from vms.model.order import SortKey
from vms.plan.explain import explain
from vms.plan.frontend import ViewPlan, plan_view
from vms.plan.plan import Exchange, Node, TopK


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
