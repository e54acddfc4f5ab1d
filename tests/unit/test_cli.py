"""The `vms` command: what goes to which stream, in which form, and with which exit code."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vms.cli.main import cli
from vms.cli.sql import _Writer, interact

TABLES = """
CREATE TABLE sales (id BIGINT PRIMARY KEY, shop VARCHAR, price DECIMAL(9, 2), day DATE);
CREATE MATERIALIZED VIEW totals AS SELECT shop, count(*) AS n, sum(price) AS total FROM sales GROUP BY shop;
"""
ROWS = """INSERT INTO sales VALUES
(1, 'north', 10.50, DATE '2024-02-29'), (2, 'north', 4.00, NULL), (3, '', -0.25, DATE '1969-12-31'),
(4, NULL, NULL, NULL);
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a folder of its own, and with it the database that is there by default."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VMS_STORE", raising=False)
    return tmp_path


def vms(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin, prog_name="vms")


def fine(*arguments: str) -> Result:
    result = vms(*arguments)
    assert result.exit_code == 0, result.output
    return result


def mistake(*arguments: str) -> str:
    """The one message of a call that its user can mend; nothing else is told, no trace least of all."""
    result = vms(*arguments)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert result.stderr.startswith("error: ") and "Traceback" not in result.stderr
    return result.stderr.removeprefix("error: ").rstrip("\n")


# --- vms sql -------------------------------------------------------------------------------------------------


def test_a_select_sees_the_writes_before_it_in_the_same_script_also_in_views() -> None:
    fine("sql", "-c", TABLES)
    for number in range(1, 6):
        script = f"INSERT INTO sales VALUES ({number}, 'x', {number}, NULL); SELECT n, total FROM totals"
        result = fine("sql", "--format", "json", "-c", script)
        assert json.loads(result.stdout) == [{"n": number, "total": f"{number * (number + 1) // 2}.00"}]
    moved = "UPDATE sales SET shop = 'y' WHERE id > 2; DELETE FROM sales WHERE id = 1; SELECT shop, n FROM totals"
    rows = json.loads(fine("sql", "--format", "json", "-c", moved).stdout)
    assert sorted(rows, key=str) == [{"shop": "x", "n": 1}, {"shop": "y", "n": 3}]


def test_a_table_for_people_has_results_and_messages_in_order() -> None:
    result = fine("sql", "-c", TABLES + ROWS + "SELECT id, shop, price FROM sales ORDER BY id")
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        "table sales created",
        "view totals created",
        "4 rows written to sales",
        "id   shop    price",
        "──────────────────",
        " 1   north   10.50",
        " 2   north    4.00",
        " 3           -0.25",
        " 4   NULL     NULL",
        "(4 rows)",
    ]
    assert result.stderr == ""


def test_csv_has_results_alone_on_standard_output() -> None:
    script = (
        TABLES + ROWS + "SELECT * FROM sales; SELECT 'a, \"b\"' AS t, true AS b WHERE false; SELECT 'a, \"b\"\n' AS t"
    )
    result = fine("sql", "--format", "csv", "-c", script)
    assert result.stdout == (
        "id,shop,price,day\n1,north,10.50,2024-02-29\n2,north,4.00,\n"
        '3,"",-0.25,1969-12-31\n4,,,\n'
        "\nt,b\n"
        '\nt\n"a, ""b""\n"\n'
    )
    assert result.stderr.splitlines()[:3] == ["table sales created", "view totals created", "4 rows written to sales"]
    assert list(csv.reader(io.StringIO(result.stdout.split("\n\n")[2])))[1] == ['a, "b"\n']


def test_json_has_one_line_a_result_and_loses_no_digit() -> None:
    values = """SELECT 9007199254740993 AS big, CAST('1.10' AS DECIMAL(30, 20)) AS d, 0.1e0 * 3 AS f,
        CAST('NaN' AS DOUBLE) AS nan, CAST('-Infinity' AS DOUBLE) AS low,
        DATE '2024-02-29' AS day, TIMESTAMP '1969-12-31 23:59:59.000001' AS at,
        NULL AS nothing, '' AS empty, 'ü"\n' AS t, false AS no"""
    result = fine("sql", "--format", "json", "-c", f"{values}; SELECT 1 AS a WHERE false; VALUES (1), (2)")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0] == [
        {
            "big": 9007199254740993, "d": "1.10000000000000000000", "f": lines[0][0]["f"], "nan": "NaN",
            "low": "-Infinity", "day": "2024-02-29", "at": "1969-12-31 23:59:59.000001", "nothing": None,
            "empty": "", "t": 'ü"\n', "no": False,
        }
    ]  # fmt: skip
    assert float(lines[0][0]["f"]) == pytest.approx(0.3)
    assert lines[1:] == [[], [{"column1": 1}, {"column1": 2}]]
    assert result.stderr.splitlines() == ["(1 row)", "(0 rows)", "(2 rows)"]


def test_a_table_does_not_let_data_move_the_cursor() -> None:
    result = fine("sql", "-c", "SELECT 'a\x1b[2J\nb' AS t")
    assert "\x1b" not in result.stdout and r"a\x1b[2J\nb" in result.stdout


def test_files_run_in_order_and_standard_input_is_one_of_them(folder: Path) -> None:
    (folder / "1.sql").write_text(TABLES)
    (folder / "2.sql").write_text("-- ü\n" + ROWS, encoding="utf-8")
    fine("sql", "-f", "1.sql", "-f", "2.sql")
    question = "SELECT count(*) AS n FROM sales"
    for arguments in (["-f", "-"], []):
        result = vms("sql", "--format", "csv", *arguments, stdin=question)
        assert (result.exit_code, result.stdout) == (0, "n\n4\n")
    assert fine("sql", "--format", "csv", "-c", question, "-c", question).stdout == "n\n4\n\nn\n4\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-c", "SELECT 1", "-f", "x.sql"], "give -c or -f, not both"),
        (["-f", "none.sql"], "'none.sql' does not exist"),
        (["-f", "."], "'.' is a directory"),
        (["-f", "latin.sql"], "latin.sql is not UTF-8 text: byte 8"),
        (["--format", "xml"], "'xml' is not one of 'table', 'csv', 'json'"),
        (["--frobnicate"], "No such option '--frobnicate'"),
    ],
)
def test_arguments_that_make_no_sense(folder: Path, arguments: list[str], message: str) -> None:
    (folder / "x.sql").write_text("SELECT 1")
    (folder / "latin.sql").write_bytes("SELECT 'ü'".encode("latin-1"))
    assert message in mistake("sql", *arguments)
    assert not (folder / "vms-data").exists()


def test_the_first_error_ends_the_run_and_what_was_done_stays() -> None:
    fine("sql", "-c", TABLES)
    result = vms("sql", "--format", "csv", "-c", ROWS + "SELECT nix FROM sales;\nDELETE FROM sales")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[1].startswith("error: there is no column named nix")
    assert fine("sql", "--format", "csv", "-c", "SELECT count(*) AS n FROM sales").stdout == "n\n4\n"


def test_a_script_that_cannot_be_read_to_its_end_does_nothing() -> None:
    assert "(line 2, column 2)" in mistake("sql", "-c", TABLES.replace("\n", " ") + "\n FROB x")
    assert fine("sql", "--format", "csv", "-c", "SHOW TABLES").stdout == "table,key,columns,read by\n"


def test_the_prompt_goes_on_after_a_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import vms as api

    typed = iter(
        [TABLES, "SELEC 1;", "\\d", "\\d sales", "\\?", "\\nix", "SELECT 1 AS one;", "\\q", "SELECT 2 AS two;"]
    )
    with api.connect(f"embedded:{folder}/db") as db:
        interact(db, _Writer("csv"), lambda: next(typed))
    out, err = capsys.readouterr()
    results = out.split("\n\n")
    assert [r.splitlines()[0] for r in results] == [
        "table,key,columns,read by",
        "view,reads,read by,definition",
        "column,type,nullable,key",
        "one",
    ]
    assert "did you mean SELECT?" in err and "there is no command \\nix" in err and "\\q         leave" in err


# --- vms explain, vms status ---------------------------------------------------------------------------------


def test_explain_takes_a_view_or_a_select() -> None:
    fine("sql", "-c", TABLES)
    by_name, by_text = fine("explain", "totals").stdout, fine("explain", "SELECT id FROM sales WHERE price > 1;").stdout
    assert by_name.startswith(
        "view totals\n  shop VARCHAR\n  n BIGINT NOT NULL\n  total DECIMAL(19, 2)\nreads\n  table sales\noperations\n"
    )
    assert by_name == fine("sql", "-c", "EXPLAIN totals").stdout
    assert "Selection price > 1.00" in by_text and by_text.startswith("view explained\n")
    assert fine("sql", "--format", "csv", "-c", "SHOW VIEWS").stdout.count("\n") == 2, "a SELECT is only planned"


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("total", "there is no view named total; did you mean totals?"),
        ("sales", "sales is a table, not a view"),
        ("SELECT random() AS r FROM sales", "not supported in a view: random()"),
        ("SELECT FROM", "(line 1, column"),
    ],
)
def test_explain_says_what_is_wrong(subject: str, message: str) -> None:
    fine("sql", "-c", TABLES)
    assert message in mistake("explain", subject)


def test_status_for_programs() -> None:
    fine("sql", "-c", TABLES + ROWS + "SELECT * FROM totals")
    found = json.loads(fine("status", "--json").stdout)
    assert found["store"] == "embedded:vms-data" and found["epoch"] > 0
    assert (found["waiting"], found["dead_letters"], found["rebuilding"], found["warnings"]) == (0, 0, None, [])
    assert found["tables"].keys() == {"sales"} and found["views"].keys() == {"totals"}
    sales, totals = found["tables"]["sales"], found["views"]["totals"]
    assert (sales["rows"], sales["key"], sales["encoding"], sales["dead_letters"]) == (4, ["id"], "bytes", 0)
    assert (totals["rows"], totals["failing_rows"], totals["failure"]) == (3, 0, None)
    assert 0 < sales["memory_bytes"] < found["memory_bytes"]


def test_status_for_people() -> None:
    assert "no tables" in fine("status").stdout
    number = "CREATE MATERIALIZED VIEW numbers AS SELECT id, CAST(shop AS BIGINT) AS n FROM sales;"
    fine("sql", "-c", TABLES + number + "INSERT INTO sales VALUES (1, '7', 1, NULL); SELECT * FROM numbers")
    lines = fine("status").stdout.splitlines()
    assert lines[0].split() == ["store", "embedded:vms-data"]
    assert lines[2] == "waiting       nothing: every view is fresh"
    table = next(line for line in lines if line.startswith("sales"))
    assert table.split()[:5] == ["sales", "1", "id", "bytes", "0"] and table.split()[-1] in ("B", "KB")
    assert not any(word in "\n".join(lines) for word in ("None", "[", "warning"))

    assert vms("sql", "-c", "INSERT INTO sales VALUES (2, 'x', 1, NULL); SELECT * FROM numbers").exit_code == 1
    lines = fine("status").stdout.splitlines()
    assert next(line for line in lines if line.startswith("numbers")).split()[:3] == ["numbers", "1", "1"]
    assert lines[-1].startswith("warning: view numbers cannot be read: CAST(") and "'x'" in lines[-1]


# --- the command itself --------------------------------------------------------------------------------------


def test_the_store_is_an_option_or_comes_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fine("--store", "embedded:a", "sql", "-c", TABLES)
    monkeypatch.setenv("VMS_STORE", "embedded:a")
    assert "totals" in fine("sql", "-c", "SHOW VIEWS").stdout
    assert "totals" not in fine("--store", "embedded:b", "sql", "-c", "SHOW VIEWS").stdout
    assert not (folder / "vms-data").exists()


def test_a_command_that_is_none() -> None:
    assert mistake("frobnicate") == "No such command 'frobnicate'.\nsee: vms --help"


def process(script: str, *arguments: str, **more: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, text=True, stdout=more.get("stdout", subprocess.PIPE), stderr=subprocess.PIPE)


def test_our_own_mistake_ends_with_two_and_its_trace_is_in_a_file() -> None:
    broken = "import vms.manager.query as q; q.run_query = lambda *a, **k: 1 / 0; import vms.manager.statements as s;"
    broken += "s.run_query = q.run_query; from vms.cli.main import main; main()"
    done = process(broken, "sql", "-c", "SELECT 1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: this is a bug in VMS: ZeroDivisionError") and "Traceback" not in done.stderr
    file = Path(next(word for word in done.stderr.split() if "vms-error-" in word))
    try:
        assert "ZeroDivisionError" in file.read_text()
    finally:
        file.unlink()
    done = process(broken, "--debug", "sql", "-c", "SELECT 1")
    assert done.returncode == 2 and "Traceback" in done.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    script = "SELECT value FROM generate_series(1, 100000)"
    command = [sys.executable, "-c", "from vms.cli.main import main; main()", "sql", "--format", "csv", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None and started.stderr is not None
        assert started.stdout.readline() == "value\n"
        started.stdout.close()
        assert started.stderr.read() == ""
    assert started.returncode == 0
