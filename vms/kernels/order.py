"""The order of rows as words: compare two rows' words from left to right as integers, and the rows are compared.

Each sort column becomes a word that tells whether the value is NULL and one or two words for the value. Text is
ordered by numbers that `TextOrder` gives to it, so only text that really has to be compared gets one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vms.kernels.hashing import jit
from vms.kernels.keys import row_jit
from vms.kernels.ordered import TextOrder, flip
from vms.model.changes import Column, Int64
from vms.model.order import SortKey
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType

_SIGN = np.int64(-(1 << 63))


class RowOrder:
    """The order of rows with columns of these types by these keys."""

    def __init__(self, keys: Sequence[SortKey], types: Sequence[SqlType], pool: TextPool) -> None:
        self.keys = tuple(keys)
        self._types = tuple(types)
        self._text = TextOrder(pool)
        self.width = sum(3 if self._types[k.column].wide else 2 for k in self.keys)

    @property
    def version(self) -> int:
        """Rises whenever words made earlier no longer compare with new ones: text was numbered anew."""
        return self._text.version

    def words(self, columns: Sequence[Column], rows: int) -> Int64:
        """The words of all keys, one row for each row."""
        for k in self.keys:  # all text first: to number a text may change the numbers of others
            if self._types[k.column].kind is Kind.VARCHAR:
                self._number(columns[k.column])
        made = [w for k in self.keys for w in self.key_words(k, columns[k.column])]
        words = np.empty((rows, self.width), np.int64)
        for i, word in enumerate(made):
            words[:, i] = word
        return words

    def key_words(self, key: SortKey, column: Column) -> list[Int64]:
        """The words of one key: whether the value is NULL, then the value."""
        if column.valid is None:
            null = np.full(len(column), int(key.nulls_first))
        else:
            null = (column.valid if key.nulls_first else ~column.valid).astype(np.int64)
        values = self._value_words(self._types[key.column], column)
        return [null, *(~v for v in values)] if key.descending else [null, *values]

    def _value_words(self, type_: SqlType, column: Column) -> list[Int64]:
        """Words of the values; a NULL has the same ones as every other NULL."""
        if type_.kind is Kind.VARCHAR:
            self._number(column)
            valid = column.valid_mask()
            labels = np.zeros(len(column), np.int64)
            labels[valid] = self._text.labels[column.codes[valid]]
            return [labels]
        if type_.kind is Kind.DOUBLE:
            return [flip(column.codes)]
        if type_.wide:
            return [column.high_words(), column.codes ^ _SIGN]
        return [column.codes]

    def _number(self, text: Column) -> None:
        codes = text.codes if text.valid is None else text.codes[text.valid]
        if len(codes):
            self._text.add(codes)

    def text_codes(self) -> Int64:
        """The text codes that must stay in the pool."""
        return self._text.codes

    def forget_text(self, columns: Sequence[Column]) -> None:
        """Keep only the numbers of texts in these columns of rows."""
        text = {k.column for k in self.keys if self._types[k.column].kind is Kind.VARCHAR}
        self._text.keep(np.concatenate([np.empty(0, np.int64), *(columns[c].codes for c in sorted(text))]))

    def memory_bytes(self) -> int:
        return self._text.labels.nbytes + self._text.codes.nbytes


def sort_words(words: Int64) -> Int64:
    """The positions of the rows in order; equal rows stay in their order."""
    columns = [words[:, i] for i in range(words.shape[1] - 1, -1, -1)]
    differing = [c for c in columns if len(c) and (c != c[0]).any()]
    return np.lexsort(differing) if differing else np.arange(len(words))


@row_jit
def _before(a, i, b, j):
    """Whether the words in row i of `a` stand before those in row j of `b`."""
    for c in range(a.shape[1]):
        if a[i, c] != b[j, c]:
            return a[i, c] < b[j, c]
    return False


@jit
def places(ordered, words):
    """How many rows of `ordered` stand before each row of words."""
    found = np.empty(words.shape[0], np.int64)
    for i in range(words.shape[0]):
        low, high = 0, ordered.shape[0]
        while low < high:
            middle = (low + high) >> 1
            if _before(ordered, middle, words, i):
                low = middle + 1
            else:
                high = middle
        found[i] = low
    return found
