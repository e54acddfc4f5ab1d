"""Columns of codes and batches of changes: what moves inside the core (design sections 2 and 5).

A `Changes` batch is a generalized multiset (Z-set): rows with integer weights. Batches carry no order: every
operation is a function of the multiset alone, so that re-execution after a crash gives the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Column:
    """Values as 64-bit codes.

    `valid` is None when no value is NULL. `codes` of NULLs are 0, so that equal columns are equal arrays.
    `high` is None while every value fits 64 bits; otherwise value = high * 2**64 + unsigned(codes).
    Arrays are shared freely between columns and never changed in place.
    """

    codes: Int64
    valid: Bool | None = None
    high: Int64 | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, index: Int64 | Bool) -> Column:
        """The rows at `index` (positions or mask)."""
        return Column(
            self.codes[index],
            None if self.valid is None else self.valid[index],
            None if self.high is None else self.high[index],
        )

    def valid_mask(self) -> Bool:
        return np.ones(len(self.codes), np.bool_) if self.valid is None else self.valid

    def high_words(self) -> Int64:
        """The high words, by sign extension where they are not stored."""
        return self.codes >> 63 if self.high is None else self.high

    @staticmethod
    def concat(columns: Sequence[Column]) -> Column:
        if len(columns) == 1:
            return columns[0]
        codes = np.concatenate([c.codes for c in columns])
        valid = None
        if any(c.valid is not None for c in columns):
            valid = np.concatenate([c.valid_mask() for c in columns])
        high = None
        if any(c.high is not None for c in columns):
            high = np.concatenate([c.high_words() for c in columns])
        return Column(codes, valid, high)

    @staticmethod
    def empty() -> Column:
        return Column(np.empty(0, np.int64))


@dataclass(slots=True)
class Changes:
    """A multiset of rows: `weights[i]` says how often row i is added (positive) or removed (negative)."""

    columns: tuple[Column, ...]
    weights: Int64

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, index: Int64 | Bool) -> Changes:
        return Changes(tuple(c.take(index) for c in self.columns), self.weights[index])

    def where(self, mask: Bool) -> Changes:
        """The rows whose flag is set; this batch itself where that is all of them."""
        rows = np.flatnonzero(mask)
        return self if len(rows) == len(mask) else self.take(rows)

    def select(self, positions: Sequence[int]) -> Changes:
        """The same rows with only the columns at `positions`."""
        return Changes(tuple(self.columns[p] for p in positions), self.weights)

    @staticmethod
    def concat(batches: Sequence[Changes], width: int) -> Changes:
        """All rows of `batches`, each `width` columns wide."""
        batches = [b for b in batches if len(b)]
        if not batches:
            return Changes.empty(width)
        if len(batches) == 1:
            return batches[0]
        return Changes(
            tuple(Column.concat([b.columns[i] for b in batches]) for i in range(width)),
            np.concatenate([b.weights for b in batches]),
        )

    @staticmethod
    @cache
    def empty(width: int) -> Changes:
        """No rows. One object for all, as most operations have nothing to do in a small epoch."""
        return Changes(tuple(Column.empty() for _ in range(width)), np.empty(0, np.int64))


#: What happened to a row (codes of the `_kind` column of source rows).
PUT, DELETE_ROW, DELETE_COLUMN, DELETE_VERSION, UNDECODABLE = range(5)
#: Of tables whose changes carry images: the whole row before a change, and after it.
BEFORE, AFTER = 5, 6


@dataclass(slots=True)
class RowChanges:
    """Decoded changes of one base table's rows, in stream order: the input of a DeltaView.

    `present[i]` is a bit set over the table's value columns (bit j: value column j is named by change i);
    bit 63 stands for the marker cell and all columns from the 63rd on are refused at CREATE TABLE. A PUT sets
    the named columns at `ts`; DELETE_ROW hides every cell at or below `ts`, DELETE_COLUMN those of the named
    columns, DELETE_VERSION the named cells at exactly `ts`. UNDECODABLE: a value could not be read; the row
    is out of every view until it is mended.
    `values` holds only the value columns that some view reads, at positions `value_index` of the table.
    """

    keys: tuple[Column, ...]
    kinds: npt.NDArray[np.int8]
    ts: Int64
    present: npt.NDArray[np.uint64]
    values: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.ts)

    @staticmethod
    def concat(parts: Sequence[RowChanges]) -> RowChanges:
        """All changes of the parts, in order."""
        if len(parts) == 1:
            return parts[0]
        return RowChanges(
            tuple(Column.concat(columns) for columns in zip(*(p.keys for p in parts))),
            np.concatenate([p.kinds for p in parts]),
            np.concatenate([p.ts for p in parts]),
            np.concatenate([p.present for p in parts]),
            tuple(Column.concat(columns) for columns in zip(*(p.values for p in parts))),
        )
