"""Tokens: what a writer gets back, and shows to a reader that must see the write (design section 6, reads).

A store that tells the place of a write in the change stream gives tokens of positions. HBase does not: there a token
names the rows, or, where they are too many, says that everything written before it was made is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Rows that a token names. Not higher, or reading them again would take longer than asking HBase for all that was
#: written; not lower, or most writers would have to wait for everybody else's writes too.
MOST_ROWS = 200


@dataclass(frozen=True)
class Token:
    """What a reader must see. `a | b` covers both.

    `positions`: region -> sequence id of the last write. `rows`: row keys by table. `everything`: all that anybody has
    written to the declared tables before.
    """

    positions: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    everything: bool = False

    def __or__(self, other: Token) -> Token:
        merged = dict(self.positions)
        for region, seq in other.positions.items():
            merged[region] = max(seq, merged.get(region, 0))
        rows = dict(self.rows)
        for table, keys in other.rows.items():
            rows[table] = rows.get(table, frozenset()) | keys
        everything = self.everything or other.everything or sum(map(len, rows.values())) > MOST_ROWS
        return Token(merged, {} if everything else rows, everything)
