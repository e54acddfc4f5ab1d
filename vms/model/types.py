"""SQL types and how each value becomes one 64-bit code (design section 5).

| type | code |
|---|---|
| BOOLEAN | 0 or 1 |
| INTEGER, BIGINT | the number |
| DECIMAL(p, s) | the number times 10**s; above 18 digits a (high, low) pair |
| DOUBLE | its bit pattern |
| DATE | days since 1970-01-01 |
| TIMESTAMP | microseconds since 1970-01-01 |
| VARCHAR | an index into the manager's `TextPool` |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from vms.errors import InvalidValue

MAX_NARROW_PRECISION = 18
MAX_PRECISION = 38


class Kind(Enum):
    """The family of a type. CHAR(n) is VARCHAR: a stored value is never padded."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    VARCHAR = "VARCHAR"


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type of the declared set. Equal types have equal codes for equal values (text: within one pool)."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    #: Whether a value may need a (high, low) pair. Not a property: it is asked for with every batch.
    wide: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        wide = self.kind is Kind.DECIMAL and self.precision > MAX_NARROW_PRECISION
        object.__setattr__(self, "wide", wide)

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        return self.kind.value

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that readers get."""
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.kind]


BOOLEAN = SqlType(Kind.BOOLEAN)
INTEGER = SqlType(Kind.INTEGER)
BIGINT = SqlType(Kind.BIGINT)
DOUBLE = SqlType(Kind.DOUBLE)
DATE = SqlType(Kind.DATE)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
VARCHAR = SqlType(Kind.VARCHAR)

_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.VARCHAR: pa.string(),
}


def decimal(precision: int, scale: int) -> SqlType:
    """DECIMAL(precision, scale), checked."""
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
        raise InvalidValue(
            f"DECIMAL({precision}, {scale}) is out of range: precision 1 to {MAX_PRECISION}, scale 0 to precision"
        )
    return SqlType(Kind.DECIMAL, precision, scale)


def from_arrow(t: pa.DataType) -> SqlType:
    """The SQL type whose values have Arrow type `t`; raises InvalidValue where there is none."""
    if pa.types.is_decimal128(t):
        return decimal(t.precision, t.scale)
    if pa.types.is_boolean(t):
        return BOOLEAN
    if pa.types.is_int64(t) or pa.types.is_uint32(t) or pa.types.is_uint64(t):
        return BIGINT
    if pa.types.is_integer(t):
        return INTEGER
    if pa.types.is_floating(t):
        return DOUBLE
    if pa.types.is_date32(t):
        return DATE
    if pa.types.is_timestamp(t):
        return TIMESTAMP
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return VARCHAR
    raise InvalidValue(f"type {t} has no place in a table or view; use one of {', '.join(k.value for k in Kind)}")
