"""Views that read views: one plan, one state, one epoch; and nothing that is read can be dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import vms
from vms.cli.main import cli
from vms.errors import UnknownName, UnsupportedSql, UserError

TABLES = """
CREATE TABLE sales (id BIGINT PRIMARY KEY, shop VARCHAR, price DECIMAL(9, 2));
CREATE TABLE shops (name VARCHAR PRIMARY KEY, country VARCHAR);
"""
TOTALS = "SELECT shop, count(*) AS n, sum(price) AS total FROM sales GROUP BY shop"
RICH = "SELECT shop, total FROM totals WHERE total > 5"
BOTH = "SELECT rich.shop, country, n FROM rich JOIN totals ON rich.shop = totals.shop JOIN shops ON rich.shop = name"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[vms.Database]:
    with vms.connect(f"embedded:{tmp_path / 'db'}") as db:
        db.sql(TABLES)
        yield db


def rows(db: vms.Database, view: str) -> list[tuple]:
    return sorted(tuple(str(v) for v in row.values()) for row in db.view(view).read("critical").to_pylist())


def create(db: vms.Database, **views: str) -> None:
    for name, sql in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")


def test_views_follow_views_of_views_through_a_restart(tmp_path: Path) -> None:
    with vms.connect(f"embedded:{tmp_path / 'db'}") as db:
        db.sql(TABLES + "INSERT INTO sales VALUES (1, 'a', 3.00), (2, 'a', 4.00), (3, 'b', 1.00)")
        create(db, totals=TOTALS)
        db.sql("INSERT INTO shops VALUES ('a', 'FR'), ('b', 'DE')")
        create(db, rich=RICH, both=BOTH)
        assert rows(db, "both") == [("a", "FR", "2")]
    with vms.connect(f"embedded:{tmp_path / 'db'}") as db:
        db.sql(
            "UPDATE sales SET shop = 'b', price = 6.00 WHERE id = 1; UPDATE shops SET country = 'IT' WHERE name = 'b'"
        )
        assert rows(db, "both") == [("b", "IT", "2")]
        assert rows(db, "rich") == [("b", "7.00")]


def test_all_change_in_one_epoch(db: vms.Database) -> None:
    create(db, totals=TOTALS, rich=RICH)
    watched = [db.view(v).watch(timeout=0) for v in ("totals", "rich")]
    for price in (6, 7, 8):
        db.sql(f"INSERT INTO sales VALUES (1, 'a', {price})")
        db.wait(db.session)
    inner, outer = ([epoch for epoch, _ in w] for w in watched)
    assert len(inner) == 3 and inner == outer


def test_state_is_that_of_the_view_that_is_read(db: vms.Database) -> None:
    create(db, totals=TOTALS)
    before = db.plan("totals").plan
    create(db, rich=RICH)
    stateful = {part["part"]: part["views"] for part in db.status()["parts"]}
    assert {n.id for n in before.nodes} - {before.outputs["totals"].id} <= {n.id for n in db.plan("rich").plan.nodes}
    assert all(views == ["totals", "rich"] for views in stateful.values())
    found = db.status()["views"]
    assert (found["totals"]["own_bytes"], found["rich"]["own_bytes"]) == (0, 0)
    assert "shared with totals" in db.explain("rich") and "shared with rich" in db.explain("totals")


def test_equal_rows_of_a_view_without_a_key_count_each(db: vms.Database) -> None:
    create(db, prices="SELECT price FROM sales", spread="SELECT price, count(*) AS n FROM prices GROUP BY price")
    create(db, twice="SELECT * FROM prices UNION ALL SELECT * FROM prices")
    db.sql("INSERT INTO sales VALUES (1, 'a', 3.00), (2, 'b', 3.00), (3, 'b', 4.00); DELETE FROM sales WHERE id = 3")
    assert rows(db, "spread") == [("3.00", "2")] and rows(db, "twice") == [("3.00",)] * 4


def test_first_rows_and_windows_are_read_as_they_are(db: vms.Database) -> None:
    create(db, dearest="SELECT id, shop, price FROM sales ORDER BY price DESC NULLS LAST LIMIT 2")
    create(db, by_shop="SELECT shop, count(*) AS n FROM dearest GROUP BY shop")
    create(db, numbered="SELECT id, price, row_number() OVER (ORDER BY price) AS place FROM dearest")
    db.sql("INSERT INTO sales VALUES (1, 'a', 3.00), (2, 'b', 5.00), (3, 'b', 4.00)")
    assert rows(db, "by_shop") == [("b", "2")]
    db.sql("DELETE FROM sales WHERE id = 2")
    assert rows(db, "by_shop") == [("a", "1"), ("b", "1")]
    assert rows(db, "numbered") == [("1", "3.00", "1"), ("3", "4.00", "2")]


def test_what_is_read_cannot_be_dropped(db: vms.Database) -> None:
    create(db, totals=TOTALS, rich=RICH, both=BOTH)
    for statement, message in (
        ("DROP TABLE sales", "table sales is read by views both, rich, totals; drop them first, in this order"),
        ("DROP TABLE shops", "table shops is read by view both; drop the view first"),
        ("DROP MATERIALIZED VIEW totals", "view totals is read by views both, rich; drop them first, in this order"),
        ("DROP MATERIALIZED VIEW rich", "view rich is read by view both; drop the view first"),
    ):
        with pytest.raises(UserError, match=message):
            db.sql(statement)
    for name in ("both", "rich", "totals"):
        db.sql(f"DROP MATERIALIZED VIEW {name}")
    db.sql("DROP TABLE sales; DROP TABLE shops")


def test_a_table_of_which_a_view_needs_nothing_stays_too(db: vms.Database) -> None:
    create(db, ids="SELECT id FROM sales UNION ALL SELECT 1 FROM shops WHERE 1 = 2")
    assert "shops" not in db.plan("ids").plan.sources
    with pytest.raises(UserError, match="table shops is read by view ids"):
        db.sql("DROP TABLE shops")


def test_a_name_means_what_it_meant_when_the_view_was_created(db: vms.Database) -> None:
    """A later view has the name of a column, and of a WITH, and reads the view itself."""
    create(db, totals=f"WITH later AS ({TOTALS}) SELECT shop, total AS best FROM later")
    create(db, best="SELECT max(best) AS m FROM totals", later="SELECT count(*) AS n FROM totals")
    db.sql("INSERT INTO sales VALUES (1, 'a', 3.00)")
    assert (rows(db, "best"), rows(db, "later"), rows(db, "totals")) == ([("3.00",)], [("1",)], [("a", "3.00")])


def test_a_view_made_again_is_read_as_it_is_now(db: vms.Database) -> None:
    db.sql("INSERT INTO sales VALUES (1, 'a', 3.00), (2, 'a', 4.00)")
    for price, expected in ((3.5, [("1",)]), (0, [("2",)])):
        create(db, some=f"SELECT id FROM sales WHERE price > {price}", counted="SELECT count(*) AS n FROM some")
        assert rows(db, "counted") == expected
        db.sql("DROP MATERIALIZED VIEW counted; DROP MATERIALIZED VIEW some")


def test_mistakes(db: vms.Database) -> None:
    create(db, totals=TOTALS)
    for statement, kind, message in (
        ("CREATE MATERIALIZED VIEW r AS SELECT * FROM r", UnsupportedSql, "a view that reads itself.*column 45"),
        ("CREATE MATERIALIZED VIEW r AS SELECT * FROM total", UnknownName, "named total; did you mean totals"),
        ("CREATE MATERIALIZED VIEW r AS SELECT totl FROM totals", UnknownName, "did you mean total or"),
        ("INSERT INTO totals VALUES ('a', 1, 2)", UserError, "totals is a view and follows its tables"),
        ("UPDATE totals SET n = 1", UserError, "totals is a view and follows its tables"),
        ("DELETE FROM totals", UserError, "totals is a view and follows its tables"),
    ):
        with pytest.raises(kind, match=message):
            db.sql(statement)


def test_who_reads_what_is_told(db: vms.Database, tmp_path: Path) -> None:
    create(db, totals=TOTALS, rich=RICH, both=BOTH)
    shown = {row["view"]: (row["reads"], row["read by"]) for row in db.sql("SHOW VIEWS").to_pylist()}
    assert shown == {
        "totals": ("sales", "rich, both"),
        "rich": ("totals", "both"),
        "both": ("shops, rich, totals", None),
    }
    tables = {row["table"]: row["read by"] for row in db.sql("SHOW TABLES").to_pylist()}
    assert tables == {"sales": "totals, rich, both", "shops": "both"}
    found = db.explain_data("rich")
    assert (found["tables"], found["views"], found["read_by"]) == ([], ["totals"], ["both"])
    db.close()
    store = ["--store", f"embedded:{tmp_path / 'db'}"]

    def said(*arguments: str) -> str:
        result = CliRunner().invoke(cli, [*store, *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert "3 rows; reads sales; read by rich, both" in said("sql", "-c", "DESCRIBE totals")
    operations = json.loads(said("explain", "totals", "--json"))["operations"]
    groups = next(o for o in operations if o["operation"].startswith("Aggregation"))
    assert groups["views"] == ["totals", "rich", "both"] and groups["memory_bytes"] > 0
    status, text = json.loads(said("status", "--json")), said("status")
    assert {p["part"]: p for p in status["parts"]}[groups["id"]]["views"] == groups["views"]
    assert sum(p["memory_bytes"] for p in status["parts"]) == status["memory_bytes"]
    assert "totals, rich, both" in text and "Aggregation count(*), sum(price) by (shop)" in text
    assert "view totals" in said("view", "show", "rich")
