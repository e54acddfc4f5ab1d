"""DISTINCT ON in an exported plan: of each group the first row.

DataFusion says it as one `first_value(column ORDER BY ...)` for each column. As all of them have one order, they come
from one row: the one that has number 1 in its partition. Which row that is where ORDER BY does not tell is decided as
for every window (`vms.plan.plan.Window`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vms.model.types import BIGINT, BOOLEAN
from vms.plan.expr import Call, Expr, Literal
from vms.plan.limits import read_sorts
from vms.plan.logical import Rel, project, ref, select
from vms.plan.plan import Field, Frame, Window, WindowCall
from vms.plan.refusals import Refused
from vms.plan.subqueries import Subqueries


def is_distinct_on(x: Any, function: Callable[[int], str]) -> bool:
    """Whether a Substrait aggregate takes the first value of something."""
    return any(function(m.measure.function_reference) == "first_value" for m in x.measures)


def read_distinct_on(x: Any, found: Subqueries, function: Callable[[int], str]) -> Rel:
    """The group columns and first values, of all columns by one order."""
    calls = [m.measure for m in x.measures]
    alike = all(
        list(c.sorts) == list(calls[0].sorts) and function(c.function_reference) == "first_value" for c in calls
    )
    if not alike or len(x.groupings) != 1 or any(m.HasField("filter") for m in x.measures):
        raise Refused("first_value beside other aggregates", "use row_number() in a subquery in FROM", "first_value")
    keys: list[Expr] = [found.read(e) for e in x.grouping_expressions]
    shown = [found.read(c.arguments[0].value) for c in calls]
    sorted_by = [found.read(s.expr) for s in calls[0].sorts]
    columns = list(dict.fromkeys([*keys, *shown, *sorted_by]))
    below = project(found.rel, columns)
    order = read_sorts(calls[0].sorts, [columns.index(e) for e in sorted_by])
    number = WindowCall("row_number", None, BIGINT, Frame(True, None, None))
    partition = tuple(dict.fromkeys(columns.index(e) for e in keys))
    numbered = Rel(Window(partition, order, (number,)), (below,), (*below.fields, Field("row_number()", BIGINT, False)))
    first = Call("equal", (ref(numbered, below.width), Literal(1, BIGINT)), BOOLEAN)
    return project(select(numbered, first), [ref(numbered, columns.index(e)) for e in (*keys, *shown)])
