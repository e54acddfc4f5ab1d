"""Functions of SQL that DataFusion knows by another name only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from vms.plan.refusals import tokens

_Read = TypeVar("_Read")
_NAMES = {"sign": "signum", "ceiling": "ceil", "variance": "var_samp", "every": "bool_and"}
#: `mod(a, b)` becomes `((a) % (b))`.
_MOD = "mod"


def read(understand: Callable[[str], _Read], sql: str) -> _Read:
    """What `understand` makes of the text; where it does not know a function, of the text in DataFusion's words.

    The first attempt is with the text itself, so that errors of syntax tell its lines and columns.
    """
    try:
        return understand(sql)
    except Exception as error:
        again = respelled(sql) if "Invalid function" in str(error) else sql
        if again == sql:
            raise
    return understand(again)


def respelled(sql: str) -> str:
    """The text with DataFusion's names."""
    found = tokens(sql)
    signs = [t.text.lower() if sql[t.start] not in "'\"" else "" for t in found]
    changes: list[tuple[int, str]] = []
    opened: list[bool] = []  # for each bracket that is open, whether it is that of mod(...)
    for i, sign in enumerate(signs):
        called = signs[i + 1 : i + 2] == ["("]
        if called and sign in _NAMES:
            changes.append((i, _NAMES[sign]))
        elif called and sign == _MOD:
            changes.append((i, "("))
        elif sign == "(":
            opened.append(i > 0 and signs[i - 1] == _MOD)
        elif sign == "," and opened and opened[-1]:
            changes.append((i, ") %("))
        elif sign == ")" and opened and opened.pop():
            changes.append((i, "))"))
    for i, text in reversed(changes):
        sql = sql[: found[i].start] + text + sql[found[i].end + 1 :]
    return sql
