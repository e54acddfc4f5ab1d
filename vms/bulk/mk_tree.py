"""The MK tree: the keys that were changed, in order, neighbours merged into ranges (thesis 6.2.3).

Two keys are neighbours when they are of one length and nothing of that length lies between them, as the encoded
keys of 41 and 42 are. So a million rows written in a row are one range, and what a table's changes cost depends
on how scattered they are, not on how many. Where keys have no neighbours it is an ordered set. The tree has two
levels: blocks of ranges, and the list of their heads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

#: Ranges of one block. Not higher, or every insertion would move more of it; not lower, or the list of blocks
#: would become what is slow.
_BLOCK = 512


class MKTree:
    """A set of row keys."""

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._by_length: dict[int, _Ranges] = {}
        self.update(keys)

    def __len__(self) -> int:
        """How many ranges it keeps."""
        return sum(len(ranges) for ranges in self._by_length.values())

    def __contains__(self, key: bytes) -> bool:
        ranges = self._by_length.get(len(key))
        return ranges is not None and ranges.holds(_number(key))

    def add(self, key: bytes) -> None:
        self._by_length.setdefault(len(key), _Ranges()).add(_number(key))

    def update(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self.add(key)

    def ranges(self) -> Iterator[tuple[bytes, bytes]]:
        """First and last key of each range, by length and key; all keys of that length between them are held."""
        for length, ranges in sorted(self._by_length.items()):
            for first, last in ranges:
                yield first.to_bytes(length, "big"), last.to_bytes(length, "big")

    def spans(self) -> list[tuple[bytes, bytes]]:
        """The same as row ranges for scans, `start <= row < stop`: in order, apart from each other."""
        found: list[tuple[bytes, bytes]] = []
        for first, last in sorted(self.ranges()):
            stop = last + b"\x00"
            if found and first <= found[-1][1]:
                found[-1] = found[-1][0], max(stop, found[-1][1])
            else:
                found.append((first, stop))
        return found


class _Ranges:
    """Ranges of whole numbers, apart by at least one, in blocks: `starts` and `ends` of each."""

    def __init__(self) -> None:
        self._starts: list[list[int]] = [[]]
        self._ends: list[list[int]] = [[]]
        self._heads: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for starts, ends in zip(self._starts, self._ends):
            yield from zip(starts, ends)

    def holds(self, number: int) -> bool:
        block, at = self._place(number)
        return at >= 0 and number <= self._ends[block][at]

    def add(self, number: int) -> None:
        block, at = self._place(number)
        starts, ends = self._starts[block], self._ends[block]
        if at >= 0 and number <= ends[at]:
            return
        joins_left = at >= 0 and ends[at] == number - 1
        right = (block, at + 1) if at + 1 < len(starts) else (block + 1, 0)
        joins_right = self._start_at(*right) == number + 1
        if joins_left and joins_right:
            ends[at] = self._ends[right[0]][right[1]]
            self._remove(*right)
        elif joins_left:
            ends[at] = number
        elif joins_right:
            self._starts[right[0]][right[1]] = number
            if right[1] == 0:
                self._head(right[0])
        else:
            starts.insert(at + 1, number)
            ends.insert(at + 1, number)
            self._count += 1
            if at < 0:
                self._head(block)
            if len(starts) > _BLOCK:
                self._split(block)

    def _place(self, number: int) -> tuple[int, int]:
        """Block and place of the last range that starts at or below the number; place -1: there is none."""
        block = max(bisect_right(self._heads, number) - 1, 0)
        return block, bisect_right(self._starts[block], number) - 1

    def _start_at(self, block: int, at: int) -> int | None:
        if block < len(self._starts) and at < len(self._starts[block]):
            return self._starts[block][at]
        return None

    def _head(self, block: int) -> None:
        """The block has another first range."""
        self._heads[block : block + 1] = self._starts[block][:1]

    def _remove(self, block: int, at: int) -> None:
        del self._starts[block][at], self._ends[block][at]
        self._count -= 1
        if not self._starts[block]:
            del self._starts[block], self._ends[block], self._heads[block]
        elif at == 0:
            self._head(block)

    def _split(self, block: int) -> None:
        for lists in (self._starts, self._ends):
            values = lists[block]
            lists[block : block + 1] = [values[: _BLOCK // 2], values[_BLOCK // 2 :]]
        self._heads.insert(block + 1, self._starts[block + 1][0])


def _number(key: bytes) -> int:
    return int.from_bytes(key, "big")
