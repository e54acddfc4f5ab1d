"""Tokens: what a writer gets back, and shows to a reader that must see the write (design section 6, reads)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Token:
    """Positions in the change stream: region -> sequence id of the last write. `a | b` covers both."""

    positions: Mapping[str, int] = field(default_factory=dict)

    def __or__(self, other: Token) -> Token:
        merged = dict(self.positions)
        for region, seq in other.positions.items():
            merged[region] = max(seq, merged.get(region, 0))
        return Token(merged)
