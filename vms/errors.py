"""Every error that VMS raises on purpose.

VmsError
├── UserError                 the caller can mend it; the CLI exits with 1 and prints the message alone
│   ├── SqlError              the text is not valid SQL here (carries line and column where known)
│   │   └── UnsupportedSql    valid SQL that cannot be maintained as a view; says what to do instead
│   ├── UnknownName           no such table, view or column; carries suggestions
│   ├── AlreadyExists         a table or view of that name is there
│   ├── InvalidValue          a value does not fit its column (type, range, NULL)
│   └── Conflict              somebody else changed the same definition first
├── ViewNotReadable           the view exists but cannot be read now
│   ├── ViewBuilding          it is not yet complete
│   ├── ViewTooOld            the epoch asked for is no longer kept
│   ├── ViewHasErrors         an expression failed for some rows; names the key and the expression
│   └── ViewStopped           a base table changed in a way that its stream does not tell; rebuild the view
├── StoreError                the key-value store answered with an error
│   ├── StoreUnavailable      it did not answer
│   └── TableMissing          a store table that must exist does not
└── InternalError             our mistake; the CLI exits with 2
    ├── ProtocolViolation     the epoch protocol saw something that it excludes; carries the evidence
    └── CorruptState          a checkpoint or log does not match its checksum
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class VmsError(Exception):
    """Base of all errors below; its text is written for the person who reads it."""


class UserError(VmsError):
    """The caller can mend it."""


class SqlError(UserError):
    """Text that cannot be understood, with its position (1-based) where that is known."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None) -> None:
        self.line, self.column = line, column
        where = f" (line {line}, column {column})" if line is not None else ""
        super().__init__(message + where)


class UnsupportedSql(SqlError):
    """A construct that a view cannot have; `instead` says what to do about it."""

    def __init__(
        self, construct: str, instead: str = "", *, line: int | None = None, column: int | None = None
    ) -> None:
        self.construct, self.instead = construct, instead
        super().__init__(
            f"not supported in a view: {construct}" + (f"; {instead}" if instead else ""), line=line, column=column
        )


class UnknownName(UserError):
    """No such table, view or column. Suggests the nearest names that exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str] = ()) -> None:
        self.kind, self.name = kind, name
        by_lower = {k.lower(): k for k in known}
        near = [by_lower[k] for k in difflib.get_close_matches(name.lower(), by_lower, n=3)]
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"there is no {kind} named {name}{hint}")


class AlreadyExists(UserError):
    """The name is taken."""


class InvalidValue(UserError):
    """A value does not fit its column. `row`: its place among several, from 0; `reason`: the message without it."""

    def __init__(self, reason: str, *, row: int | None = None) -> None:
        self.reason, self.row = reason, row
        super().__init__(reason if row is None else f"row {row}: {reason}")


class Conflict(UserError):
    """A definition was changed by somebody else since it was read."""


class ViewNotReadable(VmsError):
    """The view exists but this read cannot be answered now."""


class ViewBuilding(ViewNotReadable):
    """The view is not complete yet."""


class ViewTooOld(ViewNotReadable):
    """The epoch that was asked for is no longer kept in the view table."""


class ViewHasErrors(ViewNotReadable):
    """An expression of the view failed for some base rows."""


class ViewStopped(ViewNotReadable):
    """Something happened to a base table that its change stream does not tell; the view must be rebuilt."""


class StoreError(VmsError):
    """The key-value store answered with an error."""


class StoreUnavailable(StoreError):
    """The key-value store did not answer."""


class TableMissing(StoreError):
    """A table that must exist in the store does not."""


class InternalError(VmsError):
    """Our mistake."""


class ProtocolViolation(InternalError):
    """The epoch protocol met a situation that it excludes."""


class CorruptState(InternalError):
    """Durable state does not match its checksum."""
