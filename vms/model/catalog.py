"""The catalog: declared tables and views, as one value with a version (design section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import msgpack

from vms.errors import AlreadyExists, UnknownName, UserError, ViewBuilding
from vms.model.table import BaseTable, Encoding


class Layout(Enum):
    """How the values of a view's row become cells (vms/viewtable/cells.py): one each, or all in one."""

    COLUMNS = "columns"
    PACKED = "packed"


@dataclass(frozen=True, slots=True)
class ViewForm:
    """How a view is written into its table. `encoding` is that of its cells; packed ones have their own."""

    layout: Layout = Layout.COLUMNS
    encoding: Encoding = Encoding.PHOENIX


USUAL_FORM = ViewForm()


@dataclass(frozen=True)
class BulkLoad:
    """What a bulk job left for a view, all of it as of one snapshot.

    `folder`: where the state is; `columns`: the value columns that were read of each table; `cuts`: by table, for
    each of its regions in key order, where the region starts and the highest sequence id that is in the snapshot.
    What has changed since waits for it only in the `generation` in which the job began.
    """

    folder: str
    generation: int
    columns: Mapping[str, tuple[str, ...]]
    cuts: Mapping[str, tuple[tuple[bytes, int], ...]]

    def to_dict(self) -> dict[str, Any]:
        """A plain value for the catalog; `from_dict` is its inverse."""
        return {
            "folder": self.folder,
            "generation": self.generation,
            "columns": dict(self.columns),
            "cuts": dict(self.cuts),
        }

    @staticmethod
    def from_dict(d: dict[str, Any]) -> BulkLoad:
        columns = {table: tuple(names) for table, names in d["columns"].items()}
        cuts = {table: tuple((start, seq) for start, seq in regions) for table, regions in d["cuts"].items()}
        return BulkLoad(d["folder"], d["generation"], columns, cuts)


@dataclass(frozen=True)
class ViewDefinition:
    """A registered view. `created` is the catalog version that brought it: no other view ever has the same.

    `load`: what a bulk job left for it; None: it began with a scan of its tables. `verified`: the last epoch at which
    an audit found it to be right; 0: none was made.
    """

    name: str
    sql: str
    created: int
    form: ViewForm = USUAL_FORM
    load: BulkLoad | None = field(default=None, compare=False)
    verified: int = field(default=0, compare=False)

    def table(self, generation: int) -> str:
        """The name of its view table in one generation; never used again after the view is dropped."""
        return f"{self.name}.{self.created}.{generation}"


@dataclass(frozen=True)
class Catalog:
    """Tables and views of one version. Changing it makes the next version.

    `builds` are views that a bulk job is building: changes of their tables wait until they are loaded.
    """

    version: int = 0
    tables: Mapping[str, BaseTable] = field(default_factory=dict)
    views: Mapping[str, ViewDefinition] = field(default_factory=dict)
    builds: Mapping[str, ViewDefinition] = field(default_factory=dict)

    def _free(self, name: str) -> None:
        if name in self.tables:
            raise AlreadyExists(f"there is a table named {name} already; drop it first or choose another name")
        if name in self.views:
            raise AlreadyExists(f"there is a view named {name} already; drop it first or choose another name")
        if name in self.builds:
            raise AlreadyExists(f"view {name} is being built; drop it first or choose another name")

    def table(self, name: str) -> BaseTable:
        if name in self.views:
            raise UserError(f"{name} is a view, not a table")
        if name not in self.tables:
            raise UnknownName("table", name, self.tables)
        return self.tables[name]

    def view(self, name: str) -> ViewDefinition:
        if name in self.tables:
            raise UserError(f"{name} is a table, not a view")
        if name in self.builds:
            raise ViewBuilding(f"view {name} is being built by a bulk job; read it when that is done")
        if name not in self.views:
            raise UnknownName("view", name, self.views)
        return self.views[name]

    def with_table(self, table: BaseTable) -> Catalog:
        self._free(table.name)
        return replace(self, version=self.version + 1, tables={**self.tables, table.name: table})

    def with_images(self, name: str, images: int | None) -> Catalog:
        """The same with another way to follow a table (`BaseTable.images`)."""
        tables = {**self.tables, name: replace(self.table(name), images=images)}
        return replace(self, version=self.version + 1, tables=tables)

    def without_table(self, name: str, readers: Sequence[str]) -> Catalog:
        """`readers`: the views that read it, themselves or through other views, oldest first."""
        self.table(name)
        _refuse_readers(f"table {name}", readers)
        left = {n: t for n, t in self.tables.items() if n != name}
        return replace(self, version=self.version + 1, tables=left)

    def with_view(self, name: str, sql: str, form: ViewForm = USUAL_FORM) -> Catalog:
        self._free(name)
        view = ViewDefinition(name, sql, self.version + 1, form)
        return replace(self, version=self.version + 1, views={**self.views, name: view})

    def with_build(self, name: str, sql: str, form: ViewForm = USUAL_FORM) -> Catalog:
        """A bulk job begins to build this view."""
        self._free(name)
        view = ViewDefinition(name, sql, self.version + 1, form)
        return replace(self, version=self.version + 1, builds={**self.builds, name: view})

    def with_built(self, name: str, load: BulkLoad) -> Catalog:
        """The view that was being built is there as soon as its load is in."""
        view = replace(self.builds[name], load=load)
        left = {n: v for n, v in self.builds.items() if n != name}
        return replace(self, version=self.version + 1, views={**self.views, name: view}, builds=left)

    def with_verified(self, name: str, epoch: int) -> Catalog:
        """An audit found the view to be right as of this epoch."""
        view = replace(self.view(name), verified=epoch)
        return replace(self, version=self.version + 1, views={**self.views, name: view})

    def without_view(self, name: str, readers: Sequence[str] = ()) -> Catalog:
        """`readers`: as in `without_table`."""
        if name in self.builds:
            left = {n: v for n, v in self.builds.items() if n != name}
            return replace(self, version=self.version + 1, builds=left)
        self.view(name)
        _refuse_readers(f"view {name}", readers)
        left = {n: v for n, v in self.views.items() if n != name}
        return replace(self, version=self.version + 1, views=left)

    def outlived(self, tables: Iterable[str], generation: int) -> list[str]:
        """Of these store tables, the view tables that nobody can read once this version is committed in this
        generation: those of older generations, and of views that were dropped. True for ever after."""
        live = {(v.name, v.created) for v in (*self.views.values(), *self.builds.values())}
        found = []
        for table in tables:
            name, *numbers = table.rsplit(".", 2)
            if len(numbers) == 2 and all(n.isdigit() for n in numbers):
                created, of = map(int, numbers)
                if of < generation or (created <= self.version and (name, created) not in live):
                    found.append(table)
        return found

    def to_bytes(self) -> bytes:
        return msgpack.packb(
            {
                "version": self.version,
                "tables": [t.to_dict() for t in self.tables.values()],
                "views": [_view_to_list(v) for v in self.views.values()],
                "builds": [_view_to_list(v) for v in self.builds.values()],
            }
        )

    @staticmethod
    def from_bytes(data: bytes) -> Catalog:
        d = msgpack.unpackb(data)
        tables = [BaseTable.from_dict(t) for t in d["tables"]]
        views = [_view_from_list(*v) for v in d["views"]]
        builds = [_view_from_list(*v) for v in d.get("builds", ())]
        return Catalog(
            d["version"], {t.name: t for t in tables}, {v.name: v for v in views}, {v.name: v for v in builds}
        )


def _view_to_list(view: ViewDefinition) -> list[Any]:
    load = None if view.load is None else view.load.to_dict()
    return [view.name, view.sql, view.created, view.form.layout.value, view.form.encoding.value, load, view.verified]


def _view_from_list(
    name: str,
    sql: str,
    created: int,
    layout: str = "columns",
    encoding: str = "bytes",
    load: dict[str, Any] | None = None,
    verified: int = 0,
) -> ViewDefinition:
    """Version 0.1 kept no form: it wrote columns in the encoding of HBase's Bytes."""
    form = ViewForm(Layout(layout), Encoding(encoding))
    return ViewDefinition(name, sql, created, form, None if load is None else BulkLoad.from_dict(load), verified)


def _refuse_readers(what: str, readers: Sequence[str]) -> None:
    if len(readers) == 1:
        raise UserError(f"{what} is read by view {readers[0]}; drop the view first")
    if readers:
        names = ", ".join(reversed(readers))
        raise UserError(f"{what} is read by views {names}; drop them first, in this order")
