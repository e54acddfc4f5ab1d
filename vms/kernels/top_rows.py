"""TopRows: a multiset of rows of which the first ones are known in order.

Only the *head* is kept in order: at least the leading rows that are asked for, and some to spare. A row that
stands behind the last row of the head is only counted, which is nearly all that happens to a large multiset.
When deletes have used up what was to spare, a new head is chosen among all rows; there is a share of them to
spare, so that the cost of choosing, spread over those deletes, is constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vms.kernels.hashing import jit
from vms.kernels.keys import KeyIndex, fit, kernel_array, key_width, key_words, words_to_columns
from vms.kernels.order import RowOrder, places, sort_words
from vms.model.changes import Bool, Changes, Column, Int64
from vms.model.order import SortKey, complete
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType

#: One of so many rows is to spare in the head: to choose a head, all rows are looked at.
_SPARE_SHARE = 16


class Added(NamedTuple):
    """The rows that a batch names, each once, how often they were there before it; and the row of each change."""

    ids: Int64
    before: Int64
    of_change: Int64


class TopRows:
    """Rows with counts and, for the owner's use, a mark each. Row ids are valid until `release`.

    `first`: how many occurrences from the start of the order are ever asked for.
    """

    #: At least so many rows are to spare in the head. Not lower, or a small one would be chosen anew too often;
    #: not higher, or it would cost more to keep in order than it saves.
    spare = 1024

    def __init__(self, types: Sequence[SqlType], order: Sequence[SortKey], pool: TextPool, first: int) -> None:
        self._types = tuple(types)
        self._first = first
        self._order = RowOrder(complete(order, len(types)), types, pool)
        self._index = KeyIndex(key_width(types, nullable=True))
        self.counts = np.zeros(self._index.capacity, np.int64)
        self.marks = np.zeros(self._index.capacity, np.int64)
        self._inside = np.zeros(self._index.capacity, np.bool_)
        self._head = np.empty(0, np.int64)
        self._words = np.empty((0, self._order.width), np.int64)
        self._version = self._order.version
        self._complete = True  # whether no row is outside of the head

    def __len__(self) -> int:
        return len(self._index)

    def add(self, changes: Changes) -> Added:
        """Add to the counts of rows. Rows whose count comes to zero stay until `release`."""
        words = key_words(changes.columns, self._types, len(changes), nullable=True)
        ids, fresh = self._index.upsert(words)
        capacity = self._index.capacity
        self.counts, self.marks = fit(self.counts, capacity), fit(self.marks, capacity)
        self._inside = fit(self._inside, capacity)
        self.counts[fresh], self.marks[fresh], self._inside[fresh] = 0, 0, False
        touched = np.unique(ids)
        before = self.counts[touched]
        _count(self.counts, ids, kernel_array(changes.weights))
        if self._inside[touched[self.counts[touched] == 0]].any():
            self._keep(self.counts[self._head] != 0)
        self._enter(fresh[self.counts[fresh] != 0])
        return Added(touched, before, ids)

    def leading(self, start: int, stop: int) -> tuple[Int64, Int64]:
        """The rows at places start to stop of the order (stop <= `first`), each once, with how often."""
        self._fit_head()
        ids = self._head[:stop]
        counts = self.counts[ids]
        ends = np.cumsum(counts)
        shown = np.minimum(ends, stop) - np.maximum(ends - counts, start)
        some = shown > 0
        return ids[some], shown[some]

    def ids(self) -> Int64:
        return self._index.live_ids()

    def columns(self, ids: Int64) -> tuple[Column, ...]:
        return words_to_columns(self._index.keys[ids], self._types, nullable=True)

    def release(self, ids: Int64) -> Int64 | None:
        """Forget those of these rows that do not occur; where ids change by that: row j was `result[j]`."""
        gone = ids[self.counts[ids] == 0]
        if len(gone):
            self._index.remove(gone)
        renamed = self._compact() if self._index.wants_compaction() else None
        texts = len(self._order.text_codes())
        if texts > 2 * len(self._head) * len(self._types) + 64:
            self._order.forget_text(self.columns(self._head))
        return renamed

    def remove(self, ids: Int64) -> Int64 | None:
        """Forget these rows, whatever their count."""
        self.counts[ids], self.marks[ids] = 0, 0
        self._keep(self.counts[self._head] != 0)
        return self.release(ids)

    def text_codes(self) -> list[Int64]:
        """The text codes that must stay in the pool."""
        found = [self._order.text_codes()]
        for type_, column in zip(self._types, self.columns(self.ids())):
            if type_.kind is Kind.VARCHAR:
                found.append(column.codes if column.valid is None else column.codes[column.valid])
        return found

    def memory_bytes(self) -> int:
        arrays = (self.counts, self.marks, self._inside, self._head, self._words)
        return self._index.memory_bytes() + self._order.memory_bytes() + sum(a.nbytes for a in arrays)

    @property
    def _to_spare(self) -> int:
        return max(self.spare, len(self._index) // _SPARE_SHARE)

    def _enter(self, ids: Int64) -> None:
        """Put new rows into the head if they belong there."""
        if not self._complete and len(ids):
            ids = ids[self._before_end(ids)] if len(self._head) else ids[:0]
        if not len(ids):
            return
        words = self._order.words(self.columns(ids), len(ids))
        by_order = sort_words(words)
        ids, words = ids[by_order], words[by_order]
        if self._version != self._order.version:
            self._number_head()
        at = places(self._words, words)
        self._head = np.insert(self._head, at, ids)
        self._words = np.insert(self._words, at, words, axis=0)
        self._inside[ids] = True
        if len(self._head) > self._first + 2 * self._to_spare:
            kept = np.zeros(len(self._head), np.bool_)
            kept[: self._first + self._to_spare] = True
            self._keep(kept)
            self._complete = False

    def _before_end(self, ids: Int64) -> Bool:
        """Which of these rows stand before the last row of the head. Columns are compared as far as needed."""
        rows = np.append(ids, self._head[-1])
        result = np.zeros(len(ids), np.bool_)
        undecided = np.arange(len(ids))
        for key in self._order.keys:
            if not len(undecided):
                break
            words = self._order.key_words(key, self._column(key.column, rows[np.append(undecided, len(ids))]))
            equal = np.arange(len(undecided))
            for word in words:
                result[undecided[equal[word[equal] < word[-1]]]] = True
                equal = equal[word[equal] == word[-1]]
            undecided = undecided[equal]
        return result

    def _column(self, at: int, ids: Int64) -> Column:
        """One column of these rows."""
        first, types = key_width(self._types[:at], nullable=False), (self._types[at],)
        null = key_width(self._types, nullable=False) + at // 64
        width = key_width(types, nullable=True)
        words = np.empty((len(ids), width), np.int64)
        words[:, :-1] = self._index.keys[ids, first : first + width - 1]
        words[:, -1] = self._index.keys[ids, null] >> (at % 64) & 1
        return words_to_columns(words, types, nullable=True)[0]

    def _number_head(self) -> None:
        self._words = self._order.words(self.columns(self._head), len(self._head))
        self._version = self._order.version

    def _keep(self, kept: Bool) -> None:
        """The head without the rows that are not flagged."""
        self._inside[self._head[~kept]] = False
        self._head, self._words = self._head[kept], self._words[kept]

    def _fit_head(self) -> None:
        """Choose a new head if the old one has become too short."""
        if self._complete or len(self._head) >= self._first:
            return
        ids = self.ids()
        ids = ids[self.counts[ids] != 0]
        wanted = self._first + self._to_spare
        self._complete = len(ids) <= wanted
        self._inside[self._head] = False
        self._head = self._smallest(ids, wanted)
        self._number_head()
        by_order = sort_words(self._words)
        self._head, self._words = self._head[by_order], self._words[by_order]
        self._inside[self._head] = True

    def _smallest(self, ids: Int64, n: int) -> Int64:
        """The n first of these rows, in any order: chosen column by column, ties by the next one."""
        chosen = []
        for key in self._order.keys:
            if len(ids) <= n:
                break
            for position in range(3 if self._types[key.column].wide else 2):
                if len(ids) <= n:
                    break
                word = self._order.key_words(key, self._column(key.column, ids))[position]
                bound = np.partition(word, n - 1)[n - 1]
                chosen.append(ids[word < bound])
                n -= len(chosen[-1])
                ids = ids[word == bound]
        return np.concatenate([*chosen, ids[:n]])

    def _compact(self) -> Int64:
        before = self._index.compact()
        after = np.empty(int(before.max(initial=-1)) + 1, np.int64)
        after[before] = np.arange(len(before))
        capacity = self._index.capacity
        self.counts, self.marks = fit(self.counts[before], capacity), fit(self.marks[before], capacity)
        self._inside = fit(self._inside[before], capacity)
        self._head = after[self._head]
        return before


@jit
def _count(counts, ids, weights):
    for i in range(ids.shape[0]):
        counts[ids[i]] += weights[i]
