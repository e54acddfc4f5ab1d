"""Python functions over columns, called once for each distinct combination of arguments, never once a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vms.maintenance.expressions.text import known_rows, pick
from vms.maintenance.expressions.value import Value, both, mark
from vms.model.changes import Bool, Int64
from vms.model.text import TextPool
from vms.model.types import Kind
from vms.plan.expr import Call, Literal

#: What is known of a combination: nothing yet, a result, that it is NULL, that the function fails.
_NEW, DONE, _NULL, _FAILED = range(4)

Results = tuple[np.ndarray, np.ndarray]


class PerDistinct:
    """A function of text and integers as a step. It fails by ValueError and gives NULL by None.

    With `strict` the result is NULL where an argument is, else the function is given None for it (text only).
    The results for one text column, the other arguments constant, are kept for as long as the pool keeps its
    codes: over time the function runs once for each distinct text.
    """

    def __init__(self, e: Call, f: Callable[..., Any], pool: TextPool, strict: bool = True) -> None:
        self._f, self._pool, self._strict, self._result = f, pool, strict, e.type.kind
        self._kinds = [a.type.kind for a in e.args]
        self._constants = {i: a.value for i, a in enumerate(e.args) if isinstance(a, Literal)}
        self._moving = [i for i in range(len(e.args)) if i not in self._constants]
        one_text = strict and [self._kinds[i] for i in self._moving] == [Kind.VARCHAR]
        self._kept = Kept(pool) if one_text else None

    def __call__(self, v: list[Value]) -> Value:
        rows = np.broadcast_shapes(*(a.codes.shape for a in v))[0]
        asked = v if self._strict else [replace(a, valid=None) for a in v]
        known = known_rows(rows, *asked)
        if self._kept is None:
            state, codes = self._distinct(v, known)
        else:
            state, codes = self._kept.look_up(pick(v[self._moving[0]].codes, known), self._each)
        result = Value(np.zeros(rows, codes.dtype)).with_state_of(*asked)
        result.codes[known] = codes
        return result if (state == DONE).all() else _with_state(result, known, state)

    def _distinct(self, v: list[Value], known: Bool) -> Results:
        """State and result of every known row."""
        values, place = [], np.zeros(int(known.sum()), np.int64)
        for i in self._moving:
            distinct, index = self._argument(v[i], self._kinds[i], known)
            values.append((distinct, index))
            place = np.unique(place * max(len(distinct), 1) + index, return_inverse=True)[1]
        _, first, place = np.unique(place, return_index=True, return_inverse=True)
        state, codes = self._each([[d[i] for i in index[first].tolist()] for d, index in values], len(first))
        return state[place], codes[place]

    def _argument(self, a: Value, kind: Kind, known: Bool) -> tuple[list[Any], Int64]:
        """The distinct values of an argument, and each known row's index into them."""
        codes = pick(a.codes, known)
        if not self._strict and a.valid is not None:
            codes = np.where(pick(a.valid, known), codes, -1)
        unique, index = np.unique(codes, return_inverse=True)
        values = unique.tolist()
        if kind is Kind.VARCHAR:
            values = [None if c < 0 else self._pool.text(c) for c in values]
        return values, index

    def _each(self, moving: Sequence[Sequence[Any]], count: int) -> Results:
        """State and result of each of `count` combinations."""
        args: list[Sequence[Any]] = [[self._constants.get(i)] * count for i in range(len(self._kinds))]
        for i, values in zip(self._moving, moving):
            args[i] = values
        state = np.full(count, DONE, np.uint8)
        codes: np.ndarray = np.zeros(count, np.bool_ if self._result is Kind.BOOLEAN else np.int64)
        for i, combination in enumerate(zip(*args)):
            try:
                found = self._f(*combination)
            except ValueError:
                state[i] = _FAILED
                continue
            if found is None:
                state[i] = _NULL
            else:
                codes[i] = self._pool.code(found) if self._result is Kind.VARCHAR else found
        return state, codes


class Kept:
    """Results by the code of their text, until a sweep of the pool hands out codes anew."""

    def __init__(self, pool: TextPool) -> None:
        self._pool, self._sweeps = pool, -1
        self._state, self._codes = np.zeros(0, np.uint8), np.zeros(0, np.int64)

    def look_up(self, codes: Int64, compute: Callable[[Sequence[Sequence[Any]], int], Results]) -> Results:
        self._fit()
        new = codes[self._state[codes] == _NEW]
        if len(new):
            unique = np.unique(new)
            state, found = compute([[self._pool.text(c) for c in unique.tolist()]], len(unique))
            if found.dtype != self._codes.dtype:
                self._codes = self._codes.astype(found.dtype)
            self._state[unique], self._codes[unique] = state, found
        return self._state[codes], self._codes[codes]

    def _fit(self) -> None:
        """Room for every code of the pool; nothing is known after a sweep."""
        size = len(self._pool.hashes)
        if self._sweeps != self._pool.sweeps:
            self._sweeps = self._pool.sweeps
            self._state, self._codes = np.zeros(size, np.uint8), np.zeros(size, self._codes.dtype)
        elif size > len(self._state):
            more = size - len(self._state)
            self._state = np.concatenate([self._state, np.zeros(more, np.uint8)])
            self._codes = np.concatenate([self._codes, np.zeros(more, self._codes.dtype)])


def _with_state(result: Value, known: Bool, state: np.ndarray) -> Value:
    """The result, NULL or failed where the states of the known rows say so."""
    of_row = np.full(len(known), DONE, np.uint8)
    of_row[known] = state
    if (state == _NULL).any():
        result = replace(result, valid=both(result.valid, of_row != _NULL))
    return mark(result, of_row == _FAILED)
