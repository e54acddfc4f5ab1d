"""Subqueries whose meaning is lost where DataFusion turns them into joins.

They are found in its text of the plan before it is optimised, in which the subqueries still stand by themselves:

| subquery | what is lost |
|---|---|
| `x NOT IN (SELECT y ... WHERE y = x)` | the comparison is merged with that of NOT IN, so NULLs seem to count |
| `1 NOT IN (SELECT y ...)`, or with a constant y | the comparison is no longer that of the join |
| a window, LIMIT, DISTINCT ON, an outer join over `WHERE u.b = t.b` | which rows they are over |
| an aggregate without GROUP BY, as `EXISTS (SELECT max(y) ... WHERE u.b = t.b)` | its row for no rows at all |

The first two, and the last where it is NULL, matter only where IN has three values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vms.plan.refusals import Refused

_MARK = "(<subquery>)"
_STEP = 2
_COLUMN = re.compile(r'\b[A-Za-z_]\w*\."?[A-Za-z_]|\bcount\(')
_TEXTS = re.compile(r'(?<=\()".*?"(?=\))')
_OUTER = re.compile(r"outer_ref\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
#: Operations that see all rows of the subquery, and are moved below what is read of the query around it.
_OVER_ALL_ROWS = ("WindowAggr:", "Limit:", "DistinctOn:", "Left Join:", "Right Join:", "Full Join:")
#: LIMIT of one row or more.
_HARMLESS = re.compile(r"Limit: skip=0, fetch=[1-9]")
#: What stands before an operand of AND, OR, NOT, CASE and of a list.
_BEFORE = (" AND ", " OR ", "NOT ", "WHEN ", "THEN ", "ELSE ", ": ", ", ")


def lost_in_joins(plan: str) -> Refused | None:
    """What to refuse where the plan (its text, not optimised) is read with IN in three values.

    Raises Refused for what is lost everywhere.
    """
    found: Refused | None = None
    for line, blocks in _operations(plan.splitlines()):
        texts = line.split(_MARK)
        for before, block in zip(texts, blocks):
            found = _lost(_TEXTS.sub("", before), block) or found
    return found


def _operations(lines: Sequence[str]) -> Iterator[tuple[str, list[list[str]]]]:
    """Each line that has subqueries, with the lines of each of them, in the order in which they stand in it.

    Those of a subquery inside a subquery belong to the inner one alone.
    """
    for i, line in enumerate(lines):
        if _MARK not in line:
            continue
        depth, within, blocks = _depth(line), 0, list[list[str]]()
        for inner in lines[i + 1 :]:
            if _depth(inner) <= depth:
                break
            if _depth(inner) == depth + _STEP:
                if inner.strip() != "Subquery:":
                    break
                within = 0
                blocks.append([])
            elif within and _depth(inner) > within:
                continue
            elif inner.strip() == "Subquery:":
                within = _depth(inner)
            elif blocks:
                blocks[-1].append(inner.strip())
                within = 0
        yield line.strip(), blocks


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _lost(before: str, block: Sequence[str]) -> Refused | None:
    """What the subquery after these words loses."""
    word = (before.split() or [""])[-1]
    reads = max((i for i, line in enumerate(block) if "outer_ref(" in line), default=-1)
    above = block[: max(reads, 0)]
    if any(line.startswith(_OVER_ALL_ROWS) and not (word == "EXISTS" and _HARMLESS.match(line)) for line in above):
        what = "a window, LIMIT, DISTINCT ON or outer join over what reads columns of the query around it"
        raise Refused(what, "write it as a join with a subquery in FROM", f"{word.lower()} ( select", "( select")
    if word not in ("IN", "EXISTS", "ANY", "ALL"):
        return None  # a subquery that gives one value
    aggregate = next((line for line in above if line.startswith("Aggregate: groupBy=[[]]")), None)
    if aggregate is not None:
        what = "an aggregate without GROUP BY in a subquery here that reads columns of the query around it"
        refused = Refused(what, "compare with the subquery by =, <> or <", f"{word.lower()} ( select", word.lower())
        alone = aggregate.partition("aggr=[[")[2].removesuffix("]]")
        if word != "IN" or alone.startswith("count(") or block[0] != f"Projection: {alone}":
            raise refused
        return refused
    if word != "IN":
        return None
    value, item = _operand(re.sub(r"\s+(NOT\s+)?IN\s*$", "", before)), block[0].removeprefix("Projection: ")
    name = re.findall(r"\w+", value.lower() or "in")[-1]
    spellings = (f"{name} not in ( select", "not in ( select", f"{name} in ( select", "in ( select", "in")
    if not _COLUMN.search(value) or not _COLUMN.search(item):
        what = "a constant in NOT IN (SELECT ...), or in IN (SELECT ...) under OR"
        return Refused(what, "write EXISTS or NOT EXISTS", *spellings)
    again = [line for line in block if any(_stands_in(c, value) for c in _OUTER.findall(line))]
    nested = sum(line.startswith(("Projection: ", "Aggregate: ")) for line in block) > 1
    if again and (nested or any(item in line for line in again)):
        what = "NOT IN, or IN under OR, with a subquery that reads the value again"
        return Refused(what, "write NOT EXISTS or EXISTS", *spellings)
    return None


def _operand(before: str) -> str:
    """The expression at the end of the text."""
    depth = 0
    for i in range(len(before), 0, -1):
        depth += {")": 1, "(": -1}.get(before[i - 1], 0)
        if depth < 0:
            return before[i:]
        if not depth and before[:i].endswith(_BEFORE) and not before.rstrip().endswith("END"):
            return before[i:]
    return before


def _stands_in(column: str, value: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(column)}(?!\w)", value) is not None
