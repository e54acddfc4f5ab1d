"""The interning table: text as 64-bit codes, local to one manager (design section 5).

Codes are stable while anything refers to them and are handed out again after a sweep, so memory follows the
text that is alive. Text hashes and orders by content: `hashes` is the same in every process, codes are not.
"""

from __future__ import annotations

import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from vms.model.changes import Bool, Int64

_MIN_SIZE = 1024


class TextPool:
    """Text to code and back. Not thread-safe; one pool belongs to one member."""

    #: A sweep is wanted when there is a quarter more text than the last sweep left, and this much. The share is
    #: not higher, or text that comes and goes would cost more memory than half of what lives; neither is lower,
    #: or a sweep, which looks at all state, would come too often for what it frees.
    slack = 4096

    def __init__(self) -> None:
        self._code_of: dict[str, int] = {}
        self._texts = np.empty(_MIN_SIZE, dtype=object)
        self._hashes = np.zeros(_MIN_SIZE, np.int64)
        self._free: list[int] = []
        self._next = 0
        self._swept_size = 0
        self._text_bytes = 0
        #: How often codes were freed: what is kept by code holds for one value of it.
        self.sweeps = 0

    def __len__(self) -> int:
        return len(self._code_of)

    @property
    def hashes(self) -> Int64:
        """Content hash of every code (index = code)."""
        return self._hashes

    def code(self, text: str) -> int:
        """The code of one text, new or known."""
        code = self._code_of.get(text)
        if code is None:
            if self._free:
                code = self._free.pop()
            else:
                code = self._next
                self._next += 1
                if code == len(self._texts):
                    self._texts = np.concatenate([self._texts, np.empty_like(self._texts)])
                    self._hashes = np.concatenate([self._hashes, np.zeros_like(self._hashes)])
            self._code_of[text] = code
            self._texts[code] = text
            self._text_bytes += sys.getsizeof(text)
            digest = xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
            self._hashes[code] = digest - (digest >> 63 << 64)
        return code

    def intern(self, array: pa.Array) -> tuple[Int64, Bool | None]:
        """Codes and validity of a string array; each distinct value is looked at once."""
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if not isinstance(array, pa.DictionaryArray):
            array = pc.dictionary_encode(array)
        of_index = np.fromiter((self.code(t) for t in array.dictionary.to_pylist()), np.int64, len(array.dictionary))
        if array.null_count == 0:
            return of_index[array.indices.to_numpy(zero_copy_only=False)], None
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        index = pc.fill_null(array.indices, 0).to_numpy(zero_copy_only=False)
        codes = of_index[index] if len(of_index) else np.zeros(len(array), np.int64)
        return np.where(valid, codes, 0), valid

    def texts(self, codes: Int64, valid: Bool | None = None) -> pa.Array:
        """The strings behind `codes`; NULL where not valid."""
        if len(codes) == 0:
            return pa.array([], pa.string())
        if valid is not None and not valid.all():
            out = np.full(len(codes), None, dtype=object)
            out[valid] = self._texts[codes[valid]]
            return pa.array(out, pa.string())
        return pa.array(self._texts[codes], pa.string())

    def text(self, code: int) -> str:
        return str(self._texts[code])

    def ranks(self, codes: Int64) -> Int64:
        """Positions of `codes` in content order (UTF-8 byte order), equal text equal rank: for min, max, sorting."""
        unique, inverse = np.unique(codes, return_inverse=True)
        keys = [self._texts[c].encode("utf-8", "surrogatepass") for c in unique]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
        rank = np.empty(len(unique), np.int64)
        rank[order] = np.arange(len(unique))
        return rank[inverse]

    def wants_sweep(self) -> bool:
        """Whether so much text came since the last sweep that another one pays."""
        return len(self._code_of) > self._swept_size + self._swept_size // 4 + self.slack

    def sweep(self, live: list[Int64]) -> int:
        """Free every code that no array of `live` names; returns how many.

        The caller guarantees that `live` names every code that anything still holds: states and batches.
        """
        self.sweeps += 1
        keep = np.zeros(self._next, np.bool_)
        for codes in live:
            keep[codes] = True
        dropped = ~keep
        dropped[self._free] = False
        dead = np.flatnonzero(dropped)
        for code, text in zip(dead.tolist(), self._texts[dead]):
            del self._code_of[text]
            self._texts[code] = None
            self._text_bytes -= sys.getsizeof(text)
        self._next = int(np.flatnonzero(keep).max(initial=-1)) + 1
        self._free = np.flatnonzero(~keep[: self._next])[::-1].tolist()
        self._shrink()
        self._swept_size = len(self._code_of)
        return len(dead)

    def _shrink(self) -> None:
        """Free codes are handed out from the lowest on, so after a while the highest ones are not in use."""
        size = len(self._texts)
        while size > _MIN_SIZE and self._next <= size // 4:
            size //= 2
        if size < len(self._texts):
            self._texts, self._hashes = self._texts[:size].copy(), self._hashes[:size].copy()

    def memory_bytes(self) -> int:
        """Arrays and strings, and about 100 bytes for each entry of the dictionary."""
        return self._texts.nbytes + self._hashes.nbytes + self._text_bytes + 100 * len(self._code_of)
