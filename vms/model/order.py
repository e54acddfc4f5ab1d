"""The order of rows: what ORDER BY says, and how ties are broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column by which rows are ordered. Where NULLs stand does not depend on the direction of the values."""

    column: int
    descending: bool = False
    nulls_first: bool = False


def complete(order: Sequence[SortKey], width: int) -> tuple[SortKey, ...]:
    """The order with ties broken by the full row: then by every other of `width` columns, left to right.

    So two different rows are never equal, and which rows are first depends on the rows alone.
    """
    named = {k.column for k in order}
    return (*order, *(SortKey(c) for c in range(width) if c not in named))
