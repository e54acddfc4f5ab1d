"""Random views with DISTINCT and set operations; few columns of few values, so that rows meet."""

from __future__ import annotations

from hypothesis import strategies as st
from random_views import View, _condition, _from, _number, _of

from vms.model.types import Kind

_KINDS = [Kind.INTEGER, Kind.VARCHAR, Kind.DECIMAL, Kind.DATE, Kind.BOOLEAN, Kind.DOUBLE]
OPERATIONS = ["UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]


@st.composite
def _side(draw, kinds: list[Kind]) -> str:
    """A SELECT with one column of each kind: a column, or NULL where no table has one."""
    tables, columns = draw(_from())
    where = f" WHERE {draw(_condition(columns))}" if draw(st.integers(0, 3)) == 0 else ""
    shown = []
    for kind in kinds:
        found = _of(columns, kind, narrow=True)
        if kind is Kind.INTEGER and draw(st.integers(0, 4)) == 0:
            found = [draw(_number(_of(columns, kind)))]
        cast = "DECIMAL(12, 3)" if kind is Kind.DECIMAL else kind.value
        shown.append(draw(st.sampled_from(found)).sql if found else f"CAST(NULL AS {cast})")
    select = draw(st.sampled_from(["SELECT", "SELECT", "SELECT DISTINCT"]))
    return f"{select} {', '.join(f'{e} AS c{i}' for i, e in enumerate(shown))} FROM {tables}{where}"


@st.composite
def set_views(draw) -> View:
    """One to three SELECTs put together; sometimes grouped or selected from."""
    kinds = draw(st.lists(st.sampled_from(_KINDS[:3] * 2 + _KINDS[3:]), min_size=1, max_size=2))
    sql = draw(_side(kinds))
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2]))):
        sql = f"({sql}) {draw(st.sampled_from(OPERATIONS))} ({draw(_side(kinds))})"
    match draw(st.integers(0, 5)):
        case 0:
            sql = f"SELECT c0, count(*) AS n FROM ({sql}) AS q GROUP BY c0"
        case 1:
            sql = f"SELECT DISTINCT c0 FROM ({sql}) AS q"
        case 2:
            sql = f"SELECT q.c0, r.s AS c1 FROM ({sql}) AS q JOIN t AS r ON CAST(q.c0 AS VARCHAR) = r.s"
    return View(sql, sql)
