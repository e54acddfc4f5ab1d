"""Random views whose rows have an order: the text, and one of the same meaning in which no two rows are equal."""

from __future__ import annotations

from hypothesis import strategies as st
from random_views import View, _condition, _from


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
