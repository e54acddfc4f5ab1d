"""The change stream of the benchmarks and the demo: repeatable, of the shape asked for, and well folded."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from bench.tpch import data, queries
from bench.tpch.changes import DELETE, INSERT, PARTIAL, REINSERT, UPDATE, ChangeStream
from bench.tpch.encoded import EncodedStream
from bench.tpch.schema import TABLES, arrow_schema, ddl, relaxed
from vms.errors import InvalidValue, UnknownName, UserError
from vms.maintenance.operations.delta_view import DeltaView
from vms.model.arrow import from_column
from vms.model.text import TextPool

NAMES = ("lineitem", "orders", "customer", "nation")


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return data.tables(0.001, names=NAMES)


@pytest.fixture(scope="module")
def small(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    return {name: table.slice(0, 400) for name, table in tables.items()}


def rows_by_key(name: str, table: pa.Table) -> dict[tuple, dict]:
    rows = {tuple(row[k] for k in TABLES[name].key): row for row in table.to_pylist()}
    assert len(rows) == table.num_rows, f"{name}: a key appears twice"
    return rows


def replay(stream: ChangeStream, batch_size: int) -> dict[str, dict[tuple, dict]]:
    """The tables as plain dictionaries, one call of the API after the other."""
    state: dict[str, dict[tuple, dict]] = {name: {} for name in stream.tables}
    for batch in itertools.chain.from_iterable(stream.batches(batch_size)):
        table = state[batch.table]
        for key, row in rows_by_key(batch.table, batch.rows).items():
            if batch.kind == "delete":
                del table[key]
            elif batch.kind == "put":
                assert set(row) == {c.name for c in TABLES[batch.table].columns}
                table[key] = row
            else:
                table[key].update(row)
    return state


def test_generated_tables_have_the_declared_types(tables: dict[str, pa.Table]) -> None:
    assert {n: t.num_rows for n, t in tables.items()} == {
        "lineitem": 6005, "orders": 1500, "customer": 150, "nation": 25
    }  # fmt: skip
    for name, table in tables.items():
        assert table.schema.equals(arrow_schema(TABLES[name]))


def test_no_key_appears_twice_though_the_generator_repeats_some() -> None:
    rows = data.tables(0.001, names=["partsupp"])["partsupp"]
    assert 400 < len(rows_by_key("partsupp", rows)) == rows.num_rows < 800


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="lineitem"):
        data.tables(0.001, names=["lineitems"])
    with pytest.raises(UnknownName, match="q01"):
        queries.text("q001")


def test_the_generator_s_own_error_is_shown(tmp_path, monkeypatch) -> None:
    tool = tmp_path / "tpchgen-cli"
    tool.write_text("#!/bin/sh\necho no space left >&2\nexit 3\n")
    tool.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(UserError, match="exit code 3: no space left"):
        data.tables(0.001, tmp_path / "rows", ["nation"])
    tool.unlink()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="pip install tpchgen-cli"):
        data.tables(0.001, tmp_path / "rows", ["nation"])
    assert list((tmp_path / "rows").iterdir()) == []


def test_ddl_declares_every_table_with_its_key() -> None:
    text = ddl()
    assert text.count("CREATE TABLE") == 8
    assert "l_extendedprice DECIMAL(15, 2) NOT NULL" in text
    assert "PRIMARY KEY (l_orderkey, l_linenumber)" in text


def test_equal_seeds_give_equal_streams(small: dict[str, pa.Table]) -> None:
    first, again, other = (list(ChangeStream(small, seed).batches(100)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


@pytest.mark.parametrize("zipf", [None, 0.8, 1.0])
def test_shares_are_as_asked(tables: dict[str, pa.Table], zipf: float | None) -> None:
    shares = {DELETE: 0.09, UPDATE: 0.2, PARTIAL: 0.1, REINSERT: 0.05}
    stream = ChangeStream(tables, 1, *shares.values(), zipf=zipf)
    for kind, share in shares.items():
        assert abs((stream.kinds == kind).mean() - share) < 0.005
    assert (stream.kinds == INSERT).sum() == sum(t.num_rows for t in tables.values())
    halves = np.array_split(stream.kinds, 2)
    assert abs((halves[0] == DELETE).mean() - (halves[1] == DELETE).mean()) < 0.02


def test_tables_grow_in_proportion(tables: dict[str, pa.Table]) -> None:
    stream = ChangeStream(tables, 1, 0.0, 0.0, 0.0, 0.0)
    half = stream.final_tables(len(stream) // 2)
    for name, table in half.items():
        assert abs(table.num_rows - tables[name].num_rows / 2) <= 1


@pytest.mark.parametrize("batch_size", [1, 37, 10_000])
@pytest.mark.parametrize("zipf", [None, 1.2])
def test_final_tables_equal_a_replay_of_the_calls(
    small: dict[str, pa.Table], batch_size: int, zipf: float | None
) -> None:
    stream = ChangeStream(small, 3, 0.15, 0.2, 0.3, 0.1, zipf, definitions=relaxed())
    expected = replay(stream, batch_size)
    final = stream.final_tables()
    assert {name: rows_by_key(name, table) for name, table in final.items()} == expected
    assert any(None in row.values() for row in expected["lineitem"].values())


def test_a_cut_folds_only_what_is_before_it(small: dict[str, pa.Table]) -> None:
    stream = ChangeStream(small, 5)
    calls = [call for step in itertools.islice(stream.batches(1), 300) for call in step]
    named = {(c.table, *key) for c in calls for key in rows_by_key(c.table, c.rows)}
    deleted = {(c.table, *key) for c in calls if c.kind == "delete" for key in rows_by_key(c.table, c.rows)}
    cut = {(n, *key) for n, table in stream.final_tables(300).items() for key in rows_by_key(n, table)}
    assert named - deleted <= cut <= named
    assert stream.final_tables(0)["orders"].num_rows == 0


def test_updates_move_group_and_join_keys_and_deleted_keys_return(small: dict[str, pa.Table]) -> None:
    stream = ChangeStream(small, 11, 0.1, 0.3, 0.1, 0.08)
    first: dict[tuple, dict] = {}
    moved: set[str] = set()
    deleted: set[tuple] = set()
    returned = 0
    for batch in itertools.chain.from_iterable(stream.batches(1)):
        for key, row in rows_by_key(batch.table, batch.rows).items():
            key = (batch.table, *key)
            if batch.kind == "delete":
                deleted.add(key)
                continue
            if key in deleted:
                returned += 1
                deleted.remove(key)
            known = first.setdefault(key, row)
            moved |= {c for c, v in row.items() if known.get(c) != v}
    assert returned == (stream.kinds == REINSERT).sum() > 20
    assert {"o_custkey", "o_orderdate", "c_mktsegment", "l_returnflag", "l_shipdate"} <= moved


def test_zipf_concentrates_changes_on_few_keys(tables: dict[str, pa.Table]) -> None:
    def top_share(zipf: float | None) -> float:
        events = ChangeStream(tables, 2, 0.02, 0.4, 0.0, 0.0, zipf).events["lineitem"]
        hits = np.sort(np.bincount(events.row[events.kind == UPDATE]))[::-1]
        return hits[:20].sum() / hits.sum()

    assert top_share(None) < 0.05
    assert top_share(1.0) > 0.2


def test_impossible_shares_are_refused(small: dict[str, pa.Table]) -> None:
    with pytest.raises(InvalidValue, match="room for inserts"):
        ChangeStream(small, 1, 0.5, 0.5)
    with pytest.raises(InvalidValue, match="Zipf"):
        ChangeStream(small, 1, zipf=-1)


@pytest.mark.parametrize("batch_size", [13, 100_000])
def test_the_encoded_stream_tells_a_delta_view_the_same(small: dict[str, pa.Table], batch_size: int) -> None:
    stream = ChangeStream(small, 4, 0.15, 0.2, 0.3, 0.1, definitions=relaxed())
    pool = TextPool()
    columns = {n: [c.name for c in reversed(t.value_columns)] for n, t in stream.definitions.items()}
    encoded = EncodedStream(stream, columns, pool)
    views = {n: DeltaView(t, columns[n], pool) for n, t in stream.definitions.items()}
    newest = 0
    for batch in encoded.batches(batch_size):
        for name, changes in batch.items():
            assert len(views[name].unresolved(changes)) == 0
            views[name].step(changes)
        seen = np.sort(np.concatenate([changes.ts for changes in batch.values()]))
        assert newest < seen[0] and (np.diff(seen) > 0).all()
        newest = seen[-1]
    for name, view in views.items():
        contents = view.contents()
        arrays = [from_column(t, c, pool) for t, c in zip(view.types, contents.columns)]
        shown = pa.table(arrays, names=[*stream.definitions[name].key, *columns[name]])
        assert (contents.weights == 1).all()
        assert rows_by_key(name, shown) == rows_by_key(name, stream.final_tables()[name])


def test_a_load_comes_before_everything_else(small: dict[str, pa.Table]) -> None:
    stream = ChangeStream(small, 3, load_share=0.5)
    rows = sum(t.num_rows for t in small.values())
    assert stream.loaded == round(rows / 2)
    assert set(stream.kinds[: stream.loaded]) == {INSERT} and (stream.kinds == INSERT).sum() == rows
    assert DELETE in stream.kinds[stream.loaded : stream.loaded + 100]


def test_a_stretch_of_the_stream_holds_exactly_its_changes(small: dict[str, pa.Table]) -> None:
    stream = ChangeStream(small, 3)
    steps = [sum(b.rows.num_rows for b in step) for step in stream.batches(40, 10, 115)]
    assert steps == [40, 40, 25]


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_no_more_than_all_rows_can_be_loaded(small: dict[str, pa.Table], share: float) -> None:
    with pytest.raises(InvalidValue, match="between 0 and 1"):
        ChangeStream(small, 1, load_share=share)
