"""Random views whose rows have an order: the text, and one of the same meaning in which no two rows are equal."""

from __future__ import annotations

from hypothesis import strategies as st
from random_views import TABLES, View, _columns, _condition, _from

from vms.model.types import Kind


@st.composite
def order(draw, columns: list[str], least: int = 0) -> str:
    """Some of the columns as sort keys."""
    chosen = draw(st.lists(st.sampled_from(columns), min_size=least, max_size=3, unique=True))
    return ", ".join(
        f"{c} {draw(st.sampled_from(['ASC', 'DESC']))} NULLS {draw(st.sampled_from(['FIRST', 'LAST']))}" for c in chosen
    )


@st.composite
def ranges(draw) -> str:
    limit = draw(st.sampled_from(["", " LIMIT 1", " LIMIT 2", " LIMIT 3", " LIMIT 4"]))
    offset = draw(st.sampled_from(["", "", " OFFSET 1", " OFFSET 2"]))
    return limit + offset or " LIMIT 2"


def _ordered_by(keys: str, shown: int) -> str:
    """The keys and then every column of the SELECT."""
    return ", ".join([*([keys] if keys else []), *(f"c{i} ASC NULLS LAST" for i in range(shown))])


_INSIDE = (
    "SELECT c0, count(*) AS n FROM ({}) AS o GROUP BY c0",
    "SELECT count(c0) AS m, count(*) AS n FROM ({}) AS o",
    "SELECT * FROM ({}) AS o WHERE c0 IS NOT NULL",
)


@st.composite
def top_k_views(draw) -> View:
    """First rows of tables, joins and groups; inside of a subquery too."""
    tables, columns = draw(_from())
    where = f" WHERE {draw(_condition(columns))}" if draw(st.booleans()) else ""
    shown = [e.sql for e in draw(st.lists(st.sampled_from(columns), min_size=1, max_size=4, unique=True))]
    hidden, by = [c.sql for c in columns], ""
    if draw(st.integers(0, 2)) == 0:
        by = f" GROUP BY {', '.join(shown)}"
        hidden = shown = [*shown, "count(*)"]
    select = ", ".join(f"{e} AS c{i}" for i, e in enumerate(shown))
    keys, places = draw(order(hidden)), draw(ranges())
    sql = f"SELECT {select} FROM {tables}{where}{by}"
    exact = f"{sql} ORDER BY {_ordered_by(keys, len(shown))}{places}"
    short = f"{sql} ORDER BY {keys}{places}" if keys else f"{sql}{places}"
    # DataFusion's own execution forgets the order of a subquery that has an OFFSET and no LIMIT
    inside = ("SELECT * FROM ({}) AS o LIMIT 2", *_INSIDE) if "LIMIT" in places else ()
    form = draw(st.sampled_from(["{}", "{}", *inside]))
    # columns that are not read further up take no part in breaking ties: there the text has to name all of them
    return View(form.format(exact if form in _INSIDE else short), form.format(exact), form.format(exact))


#: Functions whose result depends on the order of rows that ORDER BY leaves equal, and those where it does not.
_NUMBERED = ("row_number()", "ntile(2)", "lag({})", "lag({}, 2)", "lead({}, 1)", "lead({}, -1)", "first_value({})")
_RANKED = ("rank()", "dense_rank()", "percent_rank()", "cume_dist()", "count(*)", "count({})", "min({})", "max({})")
_ENDS = ("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING")
_DISTANCES = {Kind.INTEGER: "{}", Kind.DECIMAL: "{}.5", Kind.DATE: "INTERVAL '{}000' DAY"}


@st.composite
def _bounds(draw) -> tuple[str, str]:
    start = draw(st.integers(0, len(_ENDS) - 1))
    end = draw(st.integers(max(start, 1), len(_ENDS)))
    return _ENDS[start], (*_ENDS, "UNBOUNDED FOLLOWING")[end]


@st.composite
def _call(draw, columns: list, read: list[str]) -> tuple[str, str]:
    """A window function, and the same with no two rows equal where that matters; `read`: the columns of the view."""
    partition = draw(st.lists(st.sampled_from(columns), max_size=2, unique=True))
    keys = draw(st.lists(st.sampled_from(columns), max_size=2, unique=True))
    kind = draw(st.sampled_from(["numbered", "ranked", "sum", "rows", "rows", "range"]))
    plain = [c for c in columns if c.type.kind is not Kind.DOUBLE and c.type.kind is not Kind.BOOLEAN]
    exact_numbers = [c for c in plain if c.type.kind in (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL)]
    value = draw(st.sampled_from(plain))
    frame, tied = "", False
    if kind == "numbered":
        call, tied = draw(st.sampled_from(_NUMBERED)).format(value.sql), True
    elif kind == "ranked":
        call = draw(st.sampled_from(_RANKED)).format(value.sql)
    else:
        call = draw(st.sampled_from(["sum({})", "min({})", "max({})", "count({})", "avg({})"]))
        whole = [c for c in exact_numbers if c.type.kind is not Kind.DECIMAL]
        value = draw(st.sampled_from(whole if call == "avg({})" else exact_numbers))
        call = call.format(value.sql)
    if kind == "rows":
        start, end = draw(_bounds())
        frame, tied = f" ROWS BETWEEN {start} AND {end}", True
        if draw(st.booleans()):
            call = draw(st.sampled_from(["first_value({})", "last_value({})", "nth_value({}, 2)"])).format(value.sql)
    if kind == "range":
        keys = [draw(st.sampled_from([c for c in plain if _distance(c) and not c.type.wide]))]
        start, end = (b.split() for b in draw(_bounds()))
        for b in (start, end):
            b[0] = _distance(keys[0]).format(b[0]) if b[0].isdigit() else b[0]
        frame = f" RANGE BETWEEN {' '.join(start)} AND {' '.join(end)}"
    texts = []
    sorts = [f"{k.sql} {draw(st.sampled_from(['ASC', 'DESC']))} NULLS {draw(st.sampled_from(['FIRST', 'LAST']))}"
             for k in keys]  # fmt: skip
    for more in ([], [f"{r} ASC NULLS LAST" for r in read] if tied else []):
        by = f"PARTITION BY {', '.join(p.sql for p in partition)} " if partition else ""
        order_by = f"ORDER BY {', '.join([*sorts, *more])}" if [*sorts, *more] else ""
        texts.append(f"{call} OVER ({by}{order_by}{frame})")
    return texts[0], texts[1]


def _distance(column) -> str:
    kind = Kind.INTEGER if column.type.kind is Kind.BIGINT else column.type.kind
    return _DISTANCES.get(kind, "")


@st.composite
def window_views(draw) -> View:
    """One window function over a table, a join or groups; or two over a table whose key is read."""
    names = draw(st.sampled_from([("t",), ("t",), ("u",), ("events",), ("t", "events")]))
    columns = [c for i, name in enumerate(names) for c in _columns(f"r{i}", TABLES[name])]
    tables = f"{names[0]} AS r0"
    if len(names) == 2:
        tables += " JOIN events AS r1 ON r0.b = r1.b"
    where = f" WHERE {draw(_condition(columns))}" if draw(st.integers(0, 3)) == 0 else ""
    keyed = tables == "t AS r0" and draw(st.booleans())
    # every column is read, so that the order of rows that are equal does not depend on which are chosen
    read = [c.sql for c in columns]
    calls = [draw(_call(columns, read)) for _ in range(draw(st.integers(1, 3)) if keyed else 1)]
    texts = []
    for dialect in (0, 1):
        select = [f"{c} AS c{i}" for i, c in enumerate([*read, *(call[dialect] for call in calls)])]
        texts.append(f"SELECT {', '.join(select)} FROM {tables}{where}")
    form = draw(st.sampled_from(["{}", "{}", "SELECT * FROM ({}) AS o WHERE c" + str(len(read)) + " IS NOT NULL"]))
    return View(form.format(texts[0]), form.format(texts[1]), form.format(texts[1]))
