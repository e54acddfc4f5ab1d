"""Change streams written as small tables, through a whole View Manager, with crashes where the table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from vms.clock import Clock
from vms.manager.coordination import LocalCoordination
from vms.manager.log import TransactionLog
from vms.manager.runtime import Runtime
from vms.model.catalog import Catalog
from vms.model.table import BaseTable, TableColumn
from vms.model.types import BIGINT, VARCHAR
from vms.store.base import Family
from vms.store.embedded import EmbeddedStore
from vms.stream.decode import RowDecoder
from vms.stream.scripted import Crash, ScriptedSource, read_script
from vms.viewtable.layout import ViewLayout

TABLE = BaseTable(
    "t", (TableColumn("k", BIGINT, nullable=False), TableColumn("g", VARCHAR), TableColumn("v", BIGINT)), ("k",)
)
SQL = "SELECT g, count(*) AS n, sum(v) AS total FROM t GROUP BY g"


class Life:
    """Managers over one store, one after the other: each lives until the script lets it die."""

    def __init__(self, folder: Path, source: ScriptedSource) -> None:
        self.store, self.source = EmbeddedStore(folder / "store", sync=False), source
        self._clock, self._folder = Clock(), folder / "log"
        self.store.create_table(TABLE.name, {TABLE.family: Family()}, stream=True)
        self.coordination = LocalCoordination(self.store)
        self.deaths = 0
        tables = Catalog().with_table(TABLE)
        self.coordination.change_catalog(Catalog(), tables)
        self.coordination.change_catalog(tables, tables.with_view("view", SQL))

    def manager(self) -> Runtime:
        log = TransactionLog(self._folder, fsync=False)
        return Runtime(self.store, self.source, self.coordination, log, epoch_interval=0.0, now_ms=self._clock.now)

    def run(self) -> Runtime:
        """Until nothing is left to do."""
        manager = self.manager()
        while True:
            try:
                while manager.epochs.step() or self.source.lag().entries:
                    pass
                return manager
            except Crash:
                self.deaths += 1
                self.source.reset()
                manager = self.manager()

    def view(self) -> dict[str | None, tuple[int, int | None]]:
        manager = self.run()
        record, catalog = manager.record, self.coordination.catalog()
        layout = ViewLayout(manager.programs.program(catalog).plan.outputs["view"])
        name = catalog.views["view"].table(record.read.generation)
        rows = layout.table(self.store.scan(name, before=record.read.epoch + 1)).to_pylist()
        return {row["g"]: (row["n"], row["total"]) for row in rows}


def test_a_script_becomes_batches() -> None:
    script = read_script(
        TABLE,
        """
        region  seq  change  k  g     v
        r1      1    put     1  a     null
        r2      7    part    2  .     5
        crash
        r1      2    delete  1  .     .
        """,
    )
    batches = [b for b in script if not isinstance(b, Crash)]
    assert [type(b).__name__ for b in script] == ["SourceBatch", "SourceBatch", "Crash", "SourceBatch"]
    assert [(b.table, b.region, b.first, b.last) for b in batches] == [
        ("t", "r1", 1, 1),
        ("t", "r2", 7, 7),
        ("t", "r1", 2, 2),
    ]
    mutations = [(e.seq, m) for b in batches for e in b.entries for m in e.mutations]
    rows, letters = RowDecoder(TABLE).decode(mutations)
    assert not letters
    assert rows.select(["k", "g", "v"]).to_pylist() == [
        {"k": 1, "g": None, "v": None},  # the delete below the whole row
        {"k": 1, "g": "a", "v": None},
        {"k": 2, "g": None, "v": 5},
        {"k": 1, "g": None, "v": None},
    ]


def test_a_crash_comes_once_when_all_before_it_is_delivered() -> None:
    script = read_script(TABLE, "region seq change k\n r1 1 put 1\n r1 2 put 2\n crash\n r1 3 put 3")
    one, two, _, three = script
    source = ScriptedSource(script)
    assert source.poll(100) == [one]
    source.acknowledge(one)
    assert source.poll(100) == [two]
    with pytest.raises(Crash, match="line 3"):
        source.poll(100)
    source.reset()
    assert source.poll(100) == [two], "it was not acknowledged"
    source.acknowledge(two)
    assert source.poll(100) == [three]


STREAM = """
    region  seq  change  k  g  v
    r1      1    put     1  a  10
    r2      1    put     9  b  90
    r1      2    part    1  .  11
    r1      3    put     2  a  20
    r2      2    delete  9  .  .
    r1      4    part    2  b  .
    r2      3    put     9  a  1
    r1      5    delete  1  .  .
    r1      6    put     1  c  null
"""
EXPECTED = {"a": (1, 1), "b": (1, 20), "c": (1, None)}


@pytest.mark.parametrize("line", range(1, 11))
def test_a_crash_anywhere_loses_and_doubles_nothing(tmp_path: Path, line: int) -> None:
    lines = STREAM.strip().splitlines()
    lines.insert(line, "crash")
    life = Life(tmp_path, ScriptedSource(read_script(TABLE, "\n".join(lines))))
    assert life.view() == EXPECTED
    assert life.deaths == 1


def test_old_entries_behind_newer_ones_are_dropped(tmp_path: Path) -> None:
    """1. A sender hangs with the first put of row 1. 2. All that follows is delivered. 3. The sender wakes up."""
    script = read_script(TABLE, STREAM)
    source = ScriptedSource(script)
    life = Life(tmp_path, source)
    assert life.view() == EXPECTED
    for batch in script:
        assert not isinstance(batch, Crash)
        source.duplicate(batch)
    assert life.view() == EXPECTED


def test_daughters_wait_for_their_parent(tmp_path: Path) -> None:
    """Row 1 is written in the parent, split away, and deleted in the daughter; the manager dies in between."""
    script = read_script(
        TABLE,
        """
        region  seq  change  k  g  v
        p       1    put     1  a  10
        p       2    put     2  a  20
        d       3    delete  1  .  .
        crash
        d       4    put     3  a  5
        """,
    )
    life = Life(tmp_path, ScriptedSource(script, parents={"d": "p"}))
    assert life.view() == {"a": (2, 25)}
    assert life.deaths == 1
