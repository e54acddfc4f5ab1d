"""Functions that DataFusion knows by another name, and regular expressions in the words of RE2."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from plan_tables import TABLES

import vms
from vms.errors import SqlError
from vms.plan.frontend import plan_view
from vms.plan.regex import to_re2
from vms.plan.spellings import respelled


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("SELECT mod(a, 2) FROM t", "SELECT ((a) %( 2)) FROM t"),
        ("mod(mod(a, f(b, c)), (d))", "((((a) %( f(b, c)))) %( (d)))"),
        ("Sign ( x ) + ceiling(y)", "signum ( x ) + ceil(y)"),
        ("SELECT every(o), variance(x), 'mod(a, b)' FROM mod", "SELECT bool_and(o), var_samp(x), 'mod(a, b)' FROM mod"),
        ("SELECT sign, t.mod FROM t -- sign(x)", "SELECT sign, t.mod FROM t -- sign(x)"),
    ],
)
def test_functions_get_the_names_that_datafusion_knows(text: str, meant: str) -> None:
    assert " ".join(respelled(text).split()) == meant


def test_other_functions_and_errors_are_told_as_they_were() -> None:
    with pytest.raises(SqlError, match=r"no function named foo \(line 1, column 19\)"):
        plan_view("v", "SELECT mod(k, 2), foo(k) AS f FROM t", TABLES)
    with pytest.raises(SqlError, match="line 1, column 23"):
        plan_view("v", "SELECT mod(k, 2) AS m FRO t", TABLES)


def test_they_are_known_in_every_statement(tmp_path: Path) -> None:
    with vms.connect(f"embedded:{tmp_path}/data") as db:
        db.sql("CREATE TABLE n (k BIGINT PRIMARY KEY, i BIGINT)")
        db.sql("INSERT INTO n SELECT 7, mod(-7, 4)")
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, mod(k, 4) AS m, sign(i) AS s FROM n")
        db.sql("UPDATE n SET i = mod(i, 2) WHERE sign(i) = -1")
        table = db.sql("SELECT m, s, ceiling(k / 2.0) AS c, i FROM v JOIN n USING (k)")
        assert table.to_pylist() == [{"m": 3, "s": -1.0, "c": 4, "i": -1}]


def found(pattern: str, text: str) -> bool:
    return pc.match_substring_regex(pa.array([text]), to_re2(pattern))[0].as_py()


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^\w+$", "e\u0301\u0663\u203f\u24b6"),
        (r"^[\w.]+$", "a.\u00e9"),
        (r"^\s+$", "\u00a0\u2003\t\x0b"),
        (r"^\S\D\W$", "ab!"),
        (r"^\x61\x{62}\u0063\U00000064$", "abcd"),
        (r"^(?P<x>a)(?<y>b)(?i:C)$", "abc"),
        (r"^[]a]\]}$", "]]}"),
        (r"^a{2,}b{1}$", "aab"),
        ("a\0b", "a\0b"),
        (r"(?s)^a.b$", "a\nb"),
    ],
)
def test_a_pattern_matches_what_it_says(pattern: str, text: str) -> None:
    assert found(pattern, text) and not found(pattern, "-")


@pytest.mark.parametrize(
    "pattern",
    [r"\ba", r"\Z", r"a{x", r"[a[b]]", r"[a--b]", r"[\W]", r"(?x)a", r"(?=a)", r"\<", "[a", "a\\", "(", r"\p{x}"],
)
def test_what_cannot_be_said_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"[a-z]"):
        to_re2(pattern)
