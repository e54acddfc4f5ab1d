"""Base tables: a declared schema over an HBase table (design section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from vms.errors import InvalidValue, UnknownName
from vms.model.types import Kind as TypeKind
from vms.model.types import SqlType, decimal

#: Qualifier of the cell that every row written by us carries, so that a row whose columns are all NULL
#: exists. Phoenix does the same under the same name.
MARKER = "_0"
#: Name of the generated key column of a table declared without PRIMARY KEY. Never shown by SELECT *.
HIDDEN_KEY = "_rowid"


class Encoding(Enum):
    """How a value is written into a cell: readable text, HBase's `Bytes`, or Phoenix's serialization."""

    TEXT = "text"
    BYTES = "bytes"
    PHOENIX = "phoenix"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One declared column."""

    name: str
    type: SqlType
    nullable: bool = True


@dataclass(frozen=True)
class BaseTable:
    """A declared table. The row key is the order-preserving encoding of the `key` columns, in key order.

    `values` are the other columns, in declaration order: one cell each. `hidden_key` tells that the key is
    generated (no PRIMARY KEY was declared), so that duplicates are kept.
    """

    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]
    family: str = "d"
    encoding: Encoding = Encoding.BYTES
    hidden_key: bool = False
    rows_estimate: int | None = None
    #: The changes of the table carry the rows before and after them (docs/hbase-stream.md). The number is the
    #: generation of the views in which nothing else of the table is needed any more; 0: in none yet; -1: they
    #: will, as soon as the stream has passed what came without.
    images: int | None = None
    by_name: dict[str, TableColumn] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [c.name for c in self.columns]
        if len(set(names)) != len(names):
            raise InvalidValue(f"table {self.name}: a column name appears twice")
        object.__setattr__(self, "by_name", {c.name: c for c in self.columns})
        if not self.key:
            raise InvalidValue(f"table {self.name}: no key column")
        for k in self.key:
            if k not in self.by_name:
                raise UnknownName("column", k, names)

    @property
    def key_columns(self) -> tuple[TableColumn, ...]:
        return tuple(self.by_name[k] for k in self.key)

    @property
    def value_columns(self) -> tuple[TableColumn, ...]:
        return tuple(c for c in self.columns if c.name not in self.key)

    @property
    def visible_columns(self) -> tuple[TableColumn, ...]:
        """What SELECT * shows."""
        return tuple(c for c in self.columns if c.name != HIDDEN_KEY)

    def qualifier(self, column: str) -> bytes:
        """`family:qualifier` of a value column's cell."""
        return f"{self.family}:{column}".encode()

    @property
    def imaged(self) -> bool:
        """Whether its changes are taken in by their images."""
        return self.images is not None and self.images >= 0

    @property
    def marker(self) -> bytes:
        return self.qualifier(MARKER)

    def to_dict(self) -> dict[str, Any]:
        """A plain value for the catalog; `from_dict` is its inverse."""
        return {
            "name": self.name,
            "columns": [[c.name, c.type.kind.value, c.type.precision, c.type.scale, c.nullable] for c in self.columns],
            "key": list(self.key),
            "family": self.family,
            "encoding": self.encoding.value,
            "hidden_key": self.hidden_key,
            "rows_estimate": self.rows_estimate,
            "images": self.images,
        }

    @staticmethod
    def from_dict(d: dict[str, Any]) -> BaseTable:
        columns = []
        for name, kind, precision, scale, nullable in d["columns"]:
            k = TypeKind(kind)
            columns.append(
                TableColumn(name, decimal(precision, scale) if k is TypeKind.DECIMAL else SqlType(k), nullable)
            )
        return BaseTable(
            d["name"],
            tuple(columns),
            tuple(d["key"]),
            d["family"],
            Encoding(d["encoding"]),
            d["hidden_key"],
            d["rows_estimate"],
            d.get("images"),
        )
