"""`vms table` and `vms view`: every command for people and for programs, and what is said to mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import vms as api
from vms.cli.main import cli
from vms.manager.ddl import create_statement, parse_create_table
from vms.store.base import Cell, Mutation

TOTALS = "SELECT shop, count(*) AS n, sum(price) AS total FROM sales GROUP BY shop"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VMS_STORE", raising=False)
    return tmp_path


def vms(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=stdin, prog_name="vms")


def fine(*arguments: str, stdin: str | None = None) -> str:
    result = vms(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def as_json(*arguments: str) -> Any:
    return json.loads(fine(*arguments, "--json"))


def mistake(*arguments: str) -> str:
    result = vms(*arguments)
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    assert "Traceback" not in result.stderr
    return result.stderr.removeprefix("error: ").rstrip("\n")


@pytest.fixture
def sales() -> None:
    fine("table", "create", "sales", "id BIGINT", "shop VARCHAR", "price DECIMAL(9, 2) NOT NULL", "--key", "id")
    fine("sql", "-c", "INSERT INTO sales VALUES (1, 'north', 1.50), (2, 'north', 2), (3, 'south', 4)")


# --- vms table -----------------------------------------------------------------------------------------------


def test_a_table_from_its_creation_to_its_drop() -> None:
    assert fine("table", "list").startswith("no tables; make one with")
    assert as_json("table", "list") == []
    created = fine(
        "table", "create", "Readings", "sensor VARCHAR", "at TIMESTAMP", "value DOUBLE NOT NULL",
        "--key", "sensor, at", "--encoding", "phoenix", "--family", "cf", "--rows", "1000",
    )  # fmt: skip
    assert created == "table readings created\n"
    fine("table", "create", "log", "what VARCHAR")
    assert as_json("table", "list") == [
        {"table": "log", "key": [], "columns": 1, "encoding": "bytes", "views": []},
        {"table": "readings", "key": ["sensor", "at"], "columns": 3, "encoding": "phoenix", "views": []},
    ]
    found = as_json("table", "show", "READINGS")
    assert (found["key"], found["family"], found["encoding"], found["rows"]) == (["sensor", "at"], "cf", "phoenix", 0)
    assert found["rows_estimate"] == 1000
    assert found["columns"][2] == {"name": "value", "type": "DOUBLE", "nullable": False, "key": False}
    assert fine("table", "drop", "readings") == "table readings dropped\n"
    assert fine("table", "drop", "readings", "--if-exists") == "there is no table readings: nothing to drop\n"
    assert "there is no table named readings" in mistake("table", "drop", "readings")
    assert [t["table"] for t in as_json("table", "list")] == ["log"]


def test_what_a_table_shows_declares_it_again(sales: None) -> None:
    found = as_json("table", "show", "sales")
    fine("table", "drop", "sales")
    fine("sql", "-c", found["sql"])
    assert as_json("table", "show", "sales") == {**found, "rows": 0}


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT, b DECIMAL(38, 7) NOT NULL, c DATE, PRIMARY KEY (c, a))",
        "CREATE TABLE t (a BOOLEAN, b VARCHAR NOT NULL)",
        """CREATE TABLE "if" ("primary" INT, "constraint" INT, key BIGINT PRIMARY KEY)
           WITH (family = 'x-y.z', encoding = 'text', rows = 0)""",
    ],
)
def test_the_statement_of_a_table_means_the_table(text: str) -> None:
    table = parse_create_table(text)
    assert parse_create_table(create_statement(table)) == table


def test_a_table_for_people(sales: None) -> None:
    fine("view", "create", "totals", TOTALS)
    lines = fine("table", "list").splitlines()
    assert [line.split() for line in lines[::2]] == [
        ["table", "key", "columns", "encoding", "views"],
        ["sales", "id", "3", "bytes", "totals"],
    ]
    shown = fine("table", "show", "sales")
    assert "rows          3\nkey           id\nencoding      bytes, in column family d\nviews         totals\n" in shown
    assert shown.endswith("PRIMARY KEY (id)\n) WITH (family = 'd', encoding = 'bytes');\n")
    assert "None" not in shown


def test_values_that_cannot_be_decoded_are_shown_with_their_table(sales: None) -> None:
    with api.connect("embedded:vms-data") as db:
        db.create_view("totals", TOTALS)
        db.store.mutate("sales", [Mutation(b"?", (Cell(b"d:shop", 7, value=b"x"),))])
        db.wait(db.latest())
    found = as_json("table", "show", "sales")
    assert found["dead_letters"] == 1
    (letter,) = found["letters"]
    assert (letter["row"], letter["column"], letter["ts"]) == (b"?".hex(), None, 7)
    assert letter["reason"] and letter["seq"] > 0 and letter["region"]
    assert letter["reason"] in fine("table", "show", "sales")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "t", "a INTT"], 'INTT is no type here; .*, in "a INTT"'),
        (["create", "t", "a INT", "b"], 'in "b"'),
        (["create", "t", "a INT", "a INT"], 'column a is declared twice, in "a INT"'),
        (["create", "t", "a INT", "--key", "b"], r'PRIMARY KEY names b, but .*, in "PRIMARY KEY \(b\)"'),
        (["create", "t", "a INT); DROP TABLE sales; --"], "expected one CREATE TABLE statement, found 3"),
        (["create", "t", "a INT", "--encoding", "xml"], "'xml' is not one of"),
        (["create", "t", "a INT", "--family", "a'b"], "cannot be a column family"),
        (["create", "t"], "Missing argument 'COLUMN...'"),
        (["create", "a b", "a INT"], "expected"),
        (["create", "sales", "a INT"], "there is a table named sales already"),
        (["show", "sale"], "there is no table named sale; did you mean sales?"),
        (["show", "totals"], "totals is a view, not a table"),
        (["drop", "sales"], "table sales is read by view totals; drop the view first"),
    ],
)
def test_mistakes_with_tables(sales: None, arguments: list[str], message: str) -> None:
    fine("view", "create", "totals", TOTALS)
    found = mistake("table", *arguments)
    assert re.search(message, found), found
    assert as_json("table", "show", "sales")["rows"] == 3


def test_what_is_there_can_be_left_alone(sales: None) -> None:
    assert "left as it is" in fine("table", "create", "sales", "x INT", "--if-not-exists")
    fine("view", "create", "totals", TOTALS)
    assert "left as it is" in fine("view", "create", "totals", "SELECT id FROM sales", "--if-not-exists")
    assert as_json("view", "show", "totals")["sql"] == TOTALS


# --- vms view ------------------------------------------------------------------------------------------------


def test_a_view_from_its_creation_to_its_drop(sales: None, folder: Path) -> None:
    assert fine("view", "list").startswith("no views; make one with")
    assert fine("view", "create", "Totals", TOTALS + " ORDER BY n;").startswith("view totals created; ORDER BY has no")
    (folder / "w.sql").write_text("-- all shops\nSELECT shop FROM sales;\n")
    fine("view", "create", "shops", "--file", "w.sql")
    fine("view", "create", "piped", "--file", "-", stdin="SELECT id FROM sales")
    listed = as_json("view", "list")
    assert [(v["view"], v["rows"], v["tables"], v["failing_rows"]) for v in listed] == [
        ("piped", 3, ["sales"], 0), ("shops", 3, ["sales"], 0), ("totals", 2, ["sales"], 0),
    ]  # fmt: skip
    found = as_json("view", "show", "totals")
    assert [(c["name"], c["type"], c["key"]) for c in found["columns"]] == [
        ("shop", "VARCHAR", True), ("n", "BIGINT", False), ("total", "DECIMAL(19, 2)", False),
    ]  # fmt: skip
    assert found["sql"] == TOTALS + " ORDER BY n" and len(found["notes"]) == 1
    shown = fine("view", "show", "totals")
    assert shown.endswith(f"\n{found['sql']};\n") and "failing rows  none" in shown and "None" not in shown
    assert fine("view", "explain", "totals") == fine("explain", "totals")
    assert fine("view", "drop", "totals") == "view totals dropped\n"
    assert fine("view", "drop", "totals", "--if-exists") == "there is no view totals: nothing to drop\n"


def test_reading_a_view(sales: None) -> None:
    fine("view", "create", "totals", TOTALS)
    rows = [{"shop": "north", "n": 2, "total": "3.50"}, {"shop": "south", "n": 1, "total": "4.00"}]
    assert as_json("view", "read", "totals") == rows
    assert json.loads(fine("view", "read", "totals", "--format", "json", "--level", "any")) == rows
    assert fine("view", "read", "totals", "--format", "csv") == "shop,n,total\nnorth,2,3.50\nsouth,1,4.00\n"
    assert fine("view", "read", "TOTALS").splitlines()[-1] == "(2 rows)"


def test_watching_what_statements_change(sales: None, folder: Path) -> None:
    fine("view", "create", "totals", TOTALS)
    (folder / "c.sql").write_text("DELETE FROM sales WHERE id = 3; SELECT 1 AS one;")
    script = "INSERT INTO sales VALUES (4, 'west', 1); UPDATE sales SET price = 2 WHERE id = 1"
    result = vms("view", "watch", "totals", "--json", "-c", script, "-f", "c.sql")
    assert result.exit_code == 0, result.output
    epochs = [json.loads(line) for line in result.stdout.splitlines()]
    assert [e["rows"] for e in epochs] == [
        [{"_change": 1, "shop": "west", "n": 1, "total": "1.00"}],
        [{"_change": 1, "shop": "north", "n": 2, "total": "4.00"}],
        [{"_change": -1, "shop": "south", "n": 1, "total": "4.00"}],
    ]
    assert [e["epoch"] for e in epochs] == sorted({e["epoch"] for e in epochs})
    assert result.stderr.splitlines()[0] == "1 row written to sales"
    lines = fine("view", "watch", "totals", "-c", "DELETE FROM sales WHERE id = 4").splitlines()
    assert lines[0].startswith("epoch ") and lines[1].split() == ["_change", "shop", "n", "total"]
    assert lines[3].split() == ["-1", "west", "1", "1.00"]
    assert fine("view", "watch", "totals", "--timeout", "0.01") == ""
    assert fine("view", "watch", "totals", "-c", "DROP MATERIALIZED VIEW totals") == ""


def test_a_view_with_failing_rows_says_so(sales: None) -> None:
    fine("view", "create", "numbers", "SELECT id, CAST(shop AS BIGINT) AS n FROM sales")
    assert as_json("view", "list")[0]["failing_rows"] == 3
    assert "warning: it cannot be read: CAST(" in fine("view", "show", "numbers")
    assert "view numbers has 3 rows that fail" in mistake("view", "read", "numbers")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "v"], "give the SELECT as an argument, or a file with --file"),
        (["create", "v", "SELECT id FROM sales", "--file", "-"], "give the SELECT as an argument, or a file"),
        (["create", "v", "DELETE FROM sales"], "a view is declared by one SELECT"),
        (["create", "v", "SELECT id FROM sales; SELECT 2"], "a view is declared by one SELECT"),
        (["create", "v", ""], "a view is declared by one SELECT"),
        (["create", "v x", "SELECT id FROM sales"], "'v x' cannot be the name of a view"),
        (["create", "", "SELECT id FROM sales"], "'' cannot be the name of a view"),
        (["create", "v", "SELECT id,\n random() AS r FROM sales"], "not supported in a view: random() *"),
        (["create", "v", "SELECT idd FROM sales"], "there is no column named idd; did you mean id"),
        (["create", "sales", "SELECT id FROM sales"], "there is a table named sales already"),
        (["show", "sales"], "sales is a table, not a view"),
        (["read", "nix"], "there is no view named nix"),
        (["read", "totals", "--level", "newest"], "'newest' is not one of"),
        (["watch", "totals", "-c", "SELEC"], "did you mean SELECT?"),
        (["drop", "totalz"], "there is no view named totalz; did you mean totals?"),
    ],
)
def test_mistakes_with_views(sales: None, arguments: list[str], message: str) -> None:
    fine("view", "create", "totals", TOTALS)
    assert message.rstrip("* ") in mistake("view", *arguments)
    assert [v["view"] for v in as_json("view", "list")] == ["totals"]


# --- help ----------------------------------------------------------------------------------------------------


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        found += commands(command, (*path, name)) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("path", [c for c in commands(cli) if c[0] != "hbase"], ids=" ".join)
def test_the_help_of_every_command_teaches_by_examples(path: tuple[str, ...]) -> None:
    """Its own help, or that of the commands around it."""
    examples = [fine(*path[:n], "--help").split("Examples:")[-1] for n in range(1, len(path) + 1)]
    assert any(f"  vms {' '.join(path)}" in text for text in examples)
