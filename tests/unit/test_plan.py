"""From SQL to maintenance plans: shapes, keys, rounds, types, sharing, join order."""

from __future__ import annotations

import pytest
from plan_tables import Q1, Q3, Q6, TABLES

from vms.errors import SqlError
from vms.model.types import BIGINT, DOUBLE, INTEGER, VARCHAR, decimal
from vms.plan.contributions import AccumulatorKind, layout_of
from vms.plan.explain import explain
from vms.plan.frontend import ViewPlan, plan_view
from vms.plan.plan import (
    Aggregation,
    Exchange,
    Join,
    MaintenancePlan,
    Node,
    Output,
    PreAggregation,
    Projection,
    Selection,
    Source,
)


def planned(sql: str, rows: dict[str, int] | None = None) -> ViewPlan:
    return plan_view("v", sql, TABLES, rows)


def nodes(view: ViewPlan, kind: type) -> list[Node]:
    return [n for n in view.plan.nodes if isinstance(n.spec, kind)]


def shape(view: ViewPlan) -> list[str]:
    """Operations in plan order; exchanges with the names of their keys."""
    lines = []
    for n in view.plan.nodes:
        if isinstance(n.spec, Exchange):
            lines.append(f"Exchange({', '.join(n.fields[k].name for k in n.spec.key)})")
        else:
            lines.append(type(n.spec).__name__ + (f" {n.spec.table}" if isinstance(n.spec, Source) else ""))
    return lines


def key_names(view: ViewPlan) -> tuple[list[str], bool]:
    output = view.plan.outputs["v"]
    assert isinstance(output.spec, Output)
    return [output.fields[k].name for k in output.spec.key], output.spec.bag


# --- TPC-H shapes


def test_q1_is_one_local_and_one_final_aggregation() -> None:
    view = planned(Q1)
    assert shape(view) == [
        "Source lineitem",
        "Selection",
        "Projection",
        "PreAggregation",
        "Exchange(l_returnflag, l_linestatus)",
        "Aggregation",
        "Output",
    ]
    assert key_names(view) == (["l_returnflag", "l_linestatus"], False)


def test_q1_counts_no_argument_that_cannot_be_null() -> None:
    view = planned(Q1)
    made = layout_of(view.plan, nodes(view, Aggregation)[0])
    kinds = [a.kind for a in made.accumulators]
    assert kinds == [AccumulatorKind.ROWS] + [AccumulatorKind.SUM] * 5
    count_order, avg_qty, sum_qty = made.calls[7], made.calls[4], made.calls[0]
    assert count_order.count == 0 and avg_qty == sum_qty


def test_q3_moves_only_what_is_not_in_place() -> None:
    view = planned(Q3)
    assert shape(view) == [
        "Source customer",
        "Selection",
        "Projection",
        "Source orders",
        "Selection",
        "Exchange(o_custkey)",
        "Join",
        "Projection",
        "Source lineitem",
        "Selection",
        "Projection",
        "Exchange(o_orderkey)",
        "Exchange(l_orderkey)",
        "Join",
        "Projection",
        "PreAggregation",
        "Aggregation",
        "Projection",
        "Output",
    ]
    assert key_names(view) == (["l_orderkey", "o_orderdate", "o_shippriority"], False)
    assert nodes(view, Aggregation)[0].distribution == (0,)


def test_q6_goes_to_one_place() -> None:
    view = planned(Q6)
    assert shape(view)[-4:] == ["PreAggregation", "Exchange()", "Aggregation", "Output"]
    assert key_names(view) == ([], False)
    assert view.plan.outputs["v"].distribution == ()


def test_only_columns_that_are_read_are_asked_for() -> None:
    assert planned(Q6).plan.sources == {
        "lineitem": ("l_discount", "l_extendedprice", "l_quantity", "l_shipdate"),
    }
    assert planned("SELECT count(*) AS n FROM t").plan.sources == {"t": ()}


# --- types


@pytest.mark.parametrize(
    ("expression", "type_", "nullable"),
    [
        ("d + d", decimal(11, 2), True),
        ("d * d", decimal(21, 4), True),
        ("d - 1.5", decimal(11, 2), True),
        ("d * i", decimal(21, 2), True),
        ("i + 1", BIGINT, True),
        ("i * i", INTEGER, True),
        ("-x", DOUBLE, True),
        ("CASE WHEN i > 0 THEN d ELSE 0 END", decimal(22, 2), True),
        ("CASE i WHEN 1 THEN 'one' ELSE 'more' END", VARCHAR, False),
        ("coalesce(s, '')", VARCHAR, False),
        ("CAST(d AS BIGINT)", BIGINT, True),
        ("nullif(b, 3)", BIGINT, True),
    ],
)
def test_expression_types_are_datafusions(expression: str, type_: object, nullable: bool) -> None:
    field = planned(f"SELECT k, {expression} AS e FROM t").fields[1]
    assert (field.name, field.type, field.nullable) == ("e", type_, nullable)


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        ("count(i)", BIGINT),
        ("sum(i)", BIGINT),
        ("sum(d)", decimal(20, 2)),
        ("sum(x)", DOUBLE),
        ("avg(i)", DOUBLE),
        ("avg(d)", decimal(14, 6)),
        ("min(s)", VARCHAR),
        ("max(d)", decimal(10, 2)),
    ],
)
def test_aggregate_types_are_datafusions(call: str, type_: object) -> None:
    assert planned(f"SELECT {call} AS a FROM t").fields[0].type == type_


def test_the_mean_of_integers_is_kept_as_their_exact_sum() -> None:
    view = planned("SELECT avg(i) AS a FROM t")
    made = layout_of(view.plan, nodes(view, PreAggregation)[0])
    assert [(a.kind.value, str(a.type)) for a in made.accumulators] == [
        ("rows", "BIGINT"),
        ("count", "BIGINT"),
        ("sum", "DECIMAL(38, 0)"),
    ]


def test_min_max_and_double_sums_keep_values() -> None:
    view = planned("SELECT s, min(b) AS a, max(b) AS c, sum(x) AS e FROM t GROUP BY s")
    fields = nodes(view, PreAggregation)[0].fields
    assert [(f.name.split("_")[0], f.type, f.nullable) for f in fields[1:]] == [
        ("rows", BIGINT, False),
        ("count", BIGINT, False),
        ("value", BIGINT, True),
        ("value", DOUBLE, True),
    ]


# --- keys


@pytest.mark.parametrize(
    ("sql", "key", "bag"),
    [
        ("SELECT i, k FROM t WHERE i > 1", ["k"], False),
        ("SELECT q, v, p FROM pair", ["p", "q"], False),
        ("SELECT p, v FROM pair", ["p", "v"], True),
        ("SELECT s, d FROM t", ["s", "d"], True),
        ("SELECT k + 1 AS k1 FROM t", ["k1"], True),
        ("SELECT n FROM log", ["n"], True),
        ("SELECT count(*) AS c, s AS t FROM t GROUP BY i, s HAVING count(*) > 1", ["c", "t"], True),
        ("SELECT max(b) AS m, i + 1 AS g FROM t GROUP BY i + 1", ["g"], False),
        ("SELECT s FROM t GROUP BY s", ["s"], False),
        ("SELECT max(b) AS m FROM t", [], False),
        # the customer of an order is one: the order's key is enough
        ("SELECT o_orderkey, c_mktsegment FROM orders JOIN customer ON o_custkey = c_custkey", ["o_orderkey"], False),
        # equal columns stand for each other
        ("SELECT l_orderkey, l_linenumber FROM orders, lineitem WHERE o_orderkey = l_orderkey",
         ["l_orderkey", "l_linenumber"], False),
        ("SELECT a.k, b.k AS k2 FROM t a JOIN t b ON a.i = b.i", ["k", "k2"], False),
        ("SELECT a.k, b.k AS k2 FROM t a JOIN t b ON a.i = b.b", ["k", "k2"], False),
        ("SELECT a.k, b.s FROM t a JOIN t b ON a.i = b.i", ["k", "s"], True),
        ("WITH c AS (SELECT i, sum(b) AS z FROM t GROUP BY i) SELECT k, z FROM t JOIN c ON t.i = c.i", ["k"], False),
    ],
)  # fmt: skip
def test_the_view_key_is_derived(sql: str, key: list[str], bag: bool) -> None:
    assert key_names(planned(sql)) == (key, bag)


def test_a_bag_counts_equal_rows() -> None:
    view = planned("SELECT s, d FROM t")
    output = view.plan.outputs["v"]
    assert [f.name for f in view.fields] == ["s", "d"]
    assert [f.type for f in output.fields] == [VARCHAR, decimal(10, 2), BIGINT]
    assert shape(view)[-4:] == ["PreAggregation", "Exchange(s, d)", "Aggregation", "Output"]


def test_a_hidden_key_is_neither_shown_nor_known() -> None:
    assert [f.name for f in planned("SELECT * FROM log").fields] == ["at", "n"]


# --- rounds


def exchanges(sql: str) -> list[str]:
    return [s for s in shape(planned(sql)) if s.startswith("Exchange")]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT k, i FROM t", []),
        # grouped by the key and more: every group is in one place already
        ("SELECT p, q, v, count(*) AS n FROM pair GROUP BY v, q, p", []),
        ("SELECT p, count(*) AS n FROM pair GROUP BY p", ["Exchange(p)"]),
        # both sides lie by their keys, in another order than the text names them
        ("SELECT a.p, a.q FROM pair a JOIN pair b ON a.q = b.q AND a.p = b.p", []),
        # one side lies by its key, the other must come
        ("SELECT o_orderkey, c_nationkey FROM customer JOIN orders ON c_custkey = o_custkey",
         ["Exchange(o_custkey)", "Exchange(o_orderkey)"]),
        # grouped by the join key under its other name
        ("SELECT o_custkey, count(*) AS n FROM customer JOIN orders ON c_custkey = o_custkey GROUP BY o_custkey",
         ["Exchange(o_custkey)"]),
        # INTEGER and BIGINT of equal value lie in the same slot
        ("SELECT CAST(i AS BIGINT) AS w, sum(n) AS z FROM (SELECT i, count(*) AS n FROM t GROUP BY i) c "
         "GROUP BY CAST(i AS BIGINT)", ["Exchange(i)"]),
    ],
)  # fmt: skip
def test_exchanges_are_left_out_where_rows_are_in_place(sql: str, expected: list[str]) -> None:
    assert exchanges(sql) == expected


def test_join_sides_are_spread_by_the_same_keys_in_the_same_order() -> None:
    view = planned("SELECT a.k, b.q FROM t a JOIN pair b ON a.b = b.q AND a.i = b.p")
    join = nodes(view, Join)[0]
    assert isinstance(join.spec, Join)
    left, right = (view.plan.node(i) for i in join.inputs)
    assert left.distribution == join.spec.left_keys and right.distribution == join.spec.right_keys
    assert [right.fields[k].name for k in join.spec.right_keys] == ["p", "q"]
    assert [left.fields[k].type for k in join.spec.left_keys] == [right.fields[k].type for k in join.spec.right_keys]


def test_a_condition_beside_the_keys_is_the_residual() -> None:
    join = nodes(planned("SELECT a.k, b.k AS k2 FROM t a JOIN t b ON a.i = b.i AND a.b < b.b"), Join)[0]
    assert isinstance(join.spec, Join) and join.spec.residual is not None
    assert len(join.spec.left_keys) == 1


# --- merging


def test_projections_are_merged() -> None:
    view = planned("SELECT k, z + 1 AS y FROM (SELECT k, i * 2 AS z FROM (SELECT k, i FROM t) a) b")
    assert shape(view) == ["Source t", "Projection", "Output"]


def test_equal_parts_of_two_views_are_the_same_nodes() -> None:
    a = plan_view("a", "SELECT i, sum(b) AS x FROM t WHERE i > 1 GROUP BY i", TABLES).plan
    b = plan_view(
        "b", "SELECT g, total FROM (SELECT i AS g, sum(b) AS total FROM t WHERE i > 1 GROUP BY i) q", TABLES
    ).plan
    merged = MaintenancePlan.merge([a, b])
    assert {n.id for n in a.nodes[:-1]} == {n.id for n in b.nodes[:-1]}
    assert len(merged.nodes) == len(a.nodes) + 1 and set(merged.outputs) == {"a", "b"}


def test_other_constants_are_other_nodes() -> None:
    one, two = (planned(f"SELECT k FROM t WHERE i > {n}") for n in (1, 2))
    assert nodes(one, Selection)[0].id != nodes(two, Selection)[0].id
    assert nodes(one, Source)[0].id == nodes(two, Source)[0].id


def test_the_same_text_gives_the_same_plan() -> None:
    assert planned(Q3).plan == planned(Q3).plan


# --- join order


CHAIN = """
SELECT n_name, sum(l_quantity) AS q FROM lineitem, orders, customer, nation
WHERE l_orderkey = o_orderkey AND o_custkey = c_custkey AND c_nationkey = n_nationkey AND n_name = 'FRANCE'
GROUP BY n_name
"""


def join_sources(view: ViewPlan) -> list[set[str]]:
    """The tables below each join, in plan order."""

    def below(n: Node) -> set[str]:
        own = {n.spec.table} if isinstance(n.spec, Source) else set()
        return own.union(*(below(view.plan.node(i)) for i in n.inputs))

    return [below(n) for n in nodes(view, Join)]


def test_without_row_counts_the_text_gives_the_order() -> None:
    assert join_sources(planned(CHAIN))[0] == {"lineitem", "orders"}


def test_row_counts_put_the_small_join_first() -> None:
    rows = {"lineitem": 6_000_000, "orders": 1_500_000, "customer": 150_000, "nation": 25}
    assert join_sources(planned(CHAIN, rows)) == [
        {"nation", "customer"},
        {"nation", "customer", "orders"},
        {"nation", "customer", "orders", "lineitem"},
    ]


# --- names and notes


def test_order_by_is_left_out_with_a_note() -> None:
    view = planned("SELECT k, i FROM t ORDER BY i DESC")
    assert shape(view) == ["Source t", "Output"]
    assert "ORDER BY" in view.notes[0]


def test_names_are_those_of_the_text() -> None:
    view = planned('SELECT K AS "Key Of", t.i, count(*) FROM T GROUP BY k, i')
    assert [f.name for f in view.fields] == ["Key Of", "i", "count(*)"]


def test_a_projection_that_only_renames_is_no_operation() -> None:
    assert not nodes(planned("SELECT k AS a, i AS b FROM t"), Projection)


@pytest.mark.parametrize("sql", ["SELECT k, k FROM t", "SELECT a.k, b.k FROM t a JOIN t b ON a.k = b.k"])
def test_two_columns_of_one_name_are_refused(sql: str) -> None:
    with pytest.raises(SqlError, match="another name with AS"):
        planned(sql)


def test_one_row_travels_to_every_member_and_the_others_stay() -> None:
    view = planned("SELECT k, i FROM t WHERE i > (SELECT max(v) FROM pair)")
    nodes = [n for n in view.plan.nodes if isinstance(n.spec, Exchange)]
    assert [(n.spec.key, n.spec.everywhere) for n in nodes] == [((), False), ((), True)]
    assert "Exchange to every member" in explain(view) and "SemiJoin on i > max(v)" in explain(view)
    assert "rows in the order of what is compared, for i > max(v): left (k, i), right: the bounds" in explain(view)
    assert view.plan.outputs["v"].spec.key == (0,) and view.plan.outputs["v"].distribution == (0,)
