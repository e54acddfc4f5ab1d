"""`vms load`: what a file says is in the table, or nothing of it and the reason."""

from __future__ import annotations

import datetime
import gzip
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import vms
from vms.cli.main import cli
from vms.errors import StoreError
from vms.manager import row_files
from vms.manager.load import Load, open_file
from vms.manager.row_files import CsvForm
from vms.testing.compare import assert_same_rows

TABLE = """CREATE TABLE t (k BIGINT PRIMARY KEY, s VARCHAR NOT NULL, p DECIMAL(9, 2), d DATE, at TIMESTAMP, f DOUBLE,
                           b BOOLEAN)"""
VIEW = "SELECT s, count(*) AS n, sum(p) AS p FROM t GROUP BY s"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VMS_STORE", raising=False)
    with vms.connect("embedded:vms-data") as db:
        db.sql(TABLE + "; CREATE TABLE words (w VARCHAR)")
        db.create_view("v", VIEW)
    return tmp_path


def load(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["load", *arguments], input=stdin)


def fine(*arguments: str, stdin: str | bytes | None = None) -> str:
    result = load(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def table(name: str = "t") -> pa.Table:
    with vms.connect("embedded:vms-data") as db:
        return db.scan(name).select([c.name for c in db.catalog.tables[name].visible_columns])


def test_every_type_comes_from_csv(folder: Path) -> None:
    (folder / "t.csv").write_text(
        "k,s,p,d,at,f,b\n"
        '1,a,1.5,2024-02-29,2024-02-29 12:30:00.000001,1e3,true\n'
        '-9223372036854775808,"",-0.01,0001-01-01,1969-12-31T23:59:59,-inf,false\n'
        '3,"x, ""y""\nz",,,,,\n'
    )  # fmt: skip
    assert fine("t", "t.csv") == "3 rows written to t\n"
    at = datetime.datetime
    expected = pa.table(
        {
            "k": [1, -(2**63), 3], "s": ["a", "", 'x, "y"\nz'], "p": [Decimal("1.50"), Decimal("-0.01"), None],
            "d": [datetime.date(2024, 2, 29), datetime.date.min, None],
            "at": [at(2024, 2, 29, 12, 30, 0, 1), at(1969, 12, 31, 23, 59, 59), None],
            "f": [1000.0, float("-inf"), None], "b": [True, False, None],
        }
    )  # fmt: skip
    assert_same_rows(table(), expected)


def test_what_vms_writes_as_csv_it_reads_back(folder: Path) -> None:
    with vms.connect("embedded:vms-data") as db:
        db.put("t", pa.table({"k": [1, 2], "s": ["", 'a"\n,b'], "f": [float("nan"), -0.5], "d": ["2024-02-29", None]}))
        db.put("words", pa.table({"w": ["", None, "NULL", " ", None]}))
    for name, copy in (("t", "t2"), ("words", "words2")):
        written = CliRunner().invoke(cli, ["sql", "--format", "csv", "-c", f"SELECT * FROM {name}"]).stdout
        columns = TABLE.replace("TABLE t ", "TABLE t2 ") if name == "t" else "CREATE TABLE words2 (w VARCHAR)"
        CliRunner().invoke(cli, ["sql", "-c", columns])
        fine(copy, "-", stdin=written)
        assert_same_rows(table(copy), table(name))


def test_parquet_and_several_files_and_views_that_follow(folder: Path) -> None:
    ids = list(range(20_000))
    for i in range(2):
        rows = pa.table(
            {
                "S": pa.array([f"s{n % 3}" for n in ids]).dictionary_encode(),
                "k": pa.array([n + i for n in ids], pa.int32()),
                "p": pa.array([n % 100 for n in ids], pa.int16()), "at": pa.array(ids, pa.timestamp("s")),
            }
        )  # fmt: skip
        pq.write_table(rows, folder / f"{i}.parquet", row_group_size=7_000)
    told = json.loads(fine("t", "0.parquet", "1.parquet", "--json"))
    assert told == {"table": "t", "files": ["0.parquet", "1.parquet"], "rows": 40_000}
    assert table().num_rows == 20_001
    view = CliRunner().invoke(cli, ["view", "read", "v", "--json", "--level", "any"]).stdout
    assert sum(row["n"] for row in json.loads(view)) == 20_001


def test_columns_headers_delimiters_and_skipped_rows(folder: Path) -> None:
    (folder / "a.csv").write_text("K ,other,S\n1,x,a\n2,y,b\n")
    fine("t", "a.csv", "--columns", "k,s")
    assert table().column("s").to_pylist() == ["a", "b"]
    fine("t", "-", "--delimiter", "|", "--no-header", "--columns", "s,k", stdin="c|3\nd|4")
    assert table().column("s").to_pylist() == ["a", "b", "c", "d"]
    fine("t", "-", "--null", "\\N", "--columns", "k,s,d", stdin="k,s,d\n5,\\N!,\\N\n6,,\\N\n")
    assert table().column("s").to_pylist()[4:] == ["\\N!", ""]
    assert fine("t", "-", "--skip", "2", stdin="k,s\n1,no\n2,no\n3,yes\n") == "1 row written to t\n"
    assert table().column("s").to_pylist()[:3] == ["a", "b", "yes"]
    with gzip.open(folder / "z.csv.gz", "wt") as file:
        file.write("k,s\n7,packed\n")
    fine("t", "z.csv.gz")
    assert table().num_rows == 7


def test_a_load_may_be_repeated_but_a_table_without_key_keeps_every_copy(folder: Path) -> None:
    (folder / "t.csv").write_text("k,s\n1,a\n2,b\n2,c\n")
    (folder / "w.csv").write_text("w\na\n\na\n")
    for _ in range(2):
        fine("t", "t.csv")
        fine("words", "w.csv")
    assert table().column("s").to_pylist() == ["a", "c"], "of one key the last row wins"
    assert sorted(table("words").column("w").to_pylist(), key=str) == [None, None, "a", "a", "a", "a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k,s\n1,a\n2,b\nx,c\n", "f.csv, row 3, column k: 'x' does not fit BIGINT"),
        ("k,s\n1,a\n9223372036854775808,b\n", "f.csv, row 2, column k: '9223372036854775808' does not fit BIGINT"),
        ("k,s,p\n1,a,1.005\n", "f.csv, row 1, column p: '1.005' does not fit DECIMAL(9, 2)"),
        ("k,s,d\n1,a,29.02.2024\n", "f.csv, row 1, column d: '29.02.2024' does not fit DATE"),
        ("k,s,b\n1,a,maybe\n", "f.csv, row 1, column b: 'maybe' does not fit BOOLEAN"),
        ("k,s\n1,a\n,b\n", "f.csv, row 2, column k: it cannot be NULL"),
        ("k,s\n1,a\n2,\n", 'f.csv, row 2, column s: it cannot be NULL; the empty text is ""'),
        ("k,s\n1,a\n2\n", "f.csv, row 2: 1 values where 2 are expected: '2'"),
        ("k,s\n1,a\n2,b,c\n", "f.csv, row 2: 3 values where 2 are expected: '2,b,c'"),
        ('k,s\n1,a\n2,"b\n3,c\n', "f.csv: a quote is never closed; it opens in row 2"),
        ("k,s\n1,a\n2,\udcff\n", "f.csv, row 2, column s: b'\\xff' does not fit VARCHAR"),
        ("k,s,x\n1,a,1\n", "f.csv: there is no column of table t named x; --columns names those to take"),
        ("k,s,k\n1,a,1\n", "f.csv has two columns named k"),
        ("k,s,K\n1,a,1\n", "f.csv has two columns for k"),
        ("k,p\n1,1\n", "f.csv has no column s, which cannot be NULL"),
        ("1,a\n", "there is no column of table t named 1"),
        ("", "f.csv is empty; its first line must name the columns"),
    ],
)
def test_a_file_with_a_mistake_writes_nothing(folder: Path, text: str, message: str) -> None:
    (folder / "good.csv").write_text("k,s\n100,good\n")
    (folder / "f.csv").write_text(text, errors="surrogateescape")
    result = load("t", "good.csv", "f.csv")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ") and message in result.stderr and result.stderr.count("\n") == 1
    assert table().num_rows == 0


def test_a_mistake_far_in_a_file_has_its_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "BLOCK_BYTES", 1000)
    lines = [f'{i},"line {i}\n"' for i in range(3000)]
    for bad, message in (
        ("x,y", "row 2501, column k: 'x'"),
        ("1", "row 2501: 1 values where 2"),
        ('1,"', "row 2502: 1 values"),
    ):
        (folder / "f.csv").write_text("\n".join(["k,s", *lines[:2500], bad, *lines[2500:]]))
        assert message in load("t", "f.csv").stderr
    (folder / "f.csv").write_text(f"k,s\n1,{'long' * 500}\n")
    assert "a row is longer than" in load("t", "f.csv").stderr
    (folder / "f.csv").write_text("\n".join(["k,s", *lines]))
    assert fine("t", "f.csv") == "3000 rows written to t\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t", "none.csv"], "'none.csv' does not exist"),
        (["t", "."], "'.' is a directory"),
        (["t", "t.dat"], "the name of t.dat does not tell its format; say --format csv"),
        (["t", "t.dat", "--format", "parquet"], "t.dat cannot be read as Parquet"),
        (["t", "t.csv.gz"], "t.csv.gz cannot be read"),
        (["t", "t.dat", "--format", "csv", "--delimiter", "||"], "--delimiter"),
        (["t", "t.dat", "t.dat", "--skip", "1"], "--skip goes with one file"),
        (["t", "t.dat", "--format", "csv", "--columns", "k,x"], "there is no column of t.dat named x"),
        (["tt", "t.dat"], "there is no table named tt; did you mean t?"),
        (["v", "t.dat"], "v is a view and follows its tables"),
    ],
)
def test_arguments_that_make_no_sense(folder: Path, arguments: list[str], message: str) -> None:
    (folder / "t.dat").write_text("k,s\n1,a\n")
    (folder / "t.csv.gz").write_text("k,s\n1,a\n")
    result = load(*arguments)
    assert result.exit_code == 1 and message in result.stderr and result.stdout == ""


def test_values_of_parquet_that_do_not_fit(folder: Path) -> None:
    for rows, message in (
        ({"k": [1, 2], "s": ["a", None]}, "f.parquet, row 2, column s: it cannot be NULL"),
        ({"k": [1, 2], "s": ["a", "b"], "p": [1.0, 1e9]}, "f.parquet, row 2, column p: 1000000000.0 does not fit"),
        ({"k": [1], "s": [["a"]]}, "f.parquet, column s: values of Arrow type list<"),
    ):
        pq.write_table(pa.table(rows), folder / "f.parquet")
        assert message in load("t", "f.parquet").stderr
    whole = (folder / "f.parquet").read_bytes()
    (folder / "f.parquet").write_bytes(whole[: len(whole) // 2])
    assert "f.parquet cannot be read as Parquet" in load("t", "f.parquet").stderr
    assert table().num_rows == 0


def test_a_load_that_is_cut_off_tells_where_to_go_on(folder: Path) -> None:
    (folder / "t.csv").write_text("k,s\n" + "".join(f"{i},x\n" for i in range(25_000)))
    put, calls = vms.Database.put, []

    def failing(db: vms.Database, name: str, rows: pa.Table, **more: bool) -> object:
        calls.append(rows.num_rows)
        if len(calls) == 3:
            raise StoreError("the disk is full")
        return put(db, name, rows, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vms.Database, "put", failing)
        result = load("t", "t.csv")
    assert result.exit_code == 1
    assert result.stderr == (
        "the first 20000 rows of t.csv are written; --skip 20000 goes on\nerror: the disk is full\n"
    )
    assert fine("t", "t.csv", "--skip", "20000") == "5000 rows written to t\n"
    assert table().num_rows == 25_000


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.one_of(st.none(), st.text(max_size=5)), st.one_of(st.none(), st.text(max_size=5)))),
    st.sampled_from([64, 1 << 20]),
    st.booleans(),
)
def test_any_text_comes_back_from_csv(tmp_path: Path, rows: list, block: int, last_line_ends: bool) -> None:
    """Quoted values of any content, NULLs, blocks of any size, with and without an end of the last line."""
    texts = ["a,b", *(",".join("" if v is None else '"' + v.replace('"', '""') + '"' for v in r) for r in rows)]
    path = tmp_path / "any.csv"
    path.write_bytes(("\n".join(texts) + "\n" * last_line_ends).encode("utf-8", "surrogatepass"))
    longest = max(len(t.encode("utf-8", "surrogatepass")) for t in texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_files, "BLOCK_BYTES", max(block, 2 * longest + 20))
        file = row_files.CsvFile(path, "any.csv", CsvForm(), [])
        got = [tuple(r.values()) for batch, _ in file.batches(["a", "b"]) for r in batch.to_pylist()]
    encoded = [tuple(None if v is None else v.encode("utf-8", "surrogatepass") for v in r) for r in rows]
    assert got == encoded


def test_progress_reaches_the_end_and_never_goes_back(folder: Path) -> None:
    (folder / "t.csv").write_text("k,s\n" + "".join(f"{i},{'x' * 200}\n" for i in range(50_000)))
    with vms.connect("embedded:vms-data") as db:
        declared = db.catalog.table("t")
        one = Load(db, declared, "t.csv", open_file(folder / "t.csv", "t.csv", None, CsvForm(), declared))
        for step in (one.check, one.write):
            told: list[float] = []
            step(told.append)
            assert told == sorted(told) and told[-1] == 1.0 and len(told) > 2
