"""Why a text cannot become a view, said in the user's words and with its place in the text.

Three sources: what the tokens of the text show (`check`), what turns up in the exported plan (`Refused`,
placed by `place`), and what DataFusion says about the text (`explain_error`). sqlglot is used for tokens and
positions only: DataFusion alone decides what the text means.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token

from vms.errors import SqlError, UnknownName, UnsupportedSql, UserError

_DIALECT = "postgres"


class Refused(Exception):
    """A construct that the plan holds. `spellings`: how it may stand in the text, the surest words first."""

    def __init__(self, construct: str, instead: str, *spellings: str) -> None:
        super().__init__(construct)
        self.construct, self.instead = construct, instead
        self.spellings = spellings


@dataclass(frozen=True, slots=True)
class _Rule:
    """A construct told by its words in sequence. After a point or AS they are the name of a column."""

    words: tuple[str, ...]
    construct: str
    instead: str
    #: The word whose place is told.
    told: int = 0


_NAMES_FOLLOW = (".", "as")
_CHANGING = "its value changes while no base row does; keep the value in a column and compare with that"
_CHANGING_CALLS = (
    "now",
    "today",
    "random",
    "rand",
    "uuid",
    "version",
    "current_date",
    "current_time",
    "current_timestamp",
)
_CHANGING_WORDS = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")

_RULES = (
    _Rule(("explain",), "EXPLAIN", "a view is defined by exactly one SELECT"),
    _Rule(("with", "recursive"), "a recursive query", "join a fixed number of times"),
    _Rule(("fetch",), "FETCH", "write LIMIT"),
    _Rule(("unnest", "("), "UNNEST", "keep the values as rows of a table and join it"),
    _Rule(("similar", "to"), "SIMILAR TO", "use LIKE or regexp_like"),
    # DataFusion reads these and does nothing about them
    _Rule(("tablesample",), "TABLESAMPLE", "select by a column"),
    _Rule(("prewhere",), "PREWHERE", "write WHERE"),
    _Rule(("for", "update"), "FOR UPDATE", "leave it out: a view locks nothing"),
    _Rule(("for", "share"), "FOR SHARE", "leave it out: a view locks nothing"),
    *(_Rule((quote + name, "("), f"{name}()", _CHANGING) for name in _CHANGING_CALLS for quote in ("", "'")),
    *(_Rule((name,), name.upper(), _CHANGING) for name in _CHANGING_WORDS),
)


@dataclass(frozen=True, slots=True)
class _Word:
    """A word or sign of the text in lower case, with its place; quoted ones keep a quote in front."""

    text: str
    start: int


def check(sql: str) -> None:
    """Raise UnsupportedSql for the first construct in the text that a view cannot have."""
    words = _words(sql)
    texts = [w.text for w in words]
    found: list[tuple[int, _Rule]] = []
    for i in range(len(words)):
        for rule in _RULES:
            named = i > 0 and texts[i - 1] in _NAMES_FOLLOW
            if tuple(texts[i : i + len(rule.words)]) == rule.words and not named:
                found.append((words[i + rule.told].start, rule))
    if found:
        start, rule = min(found, key=lambda f: f[0])
        raise UnsupportedSql(rule.construct, rule.instead, **_place(sql, start))


def holds(sql: str, *words: str) -> bool:
    """Whether these words stand in the text in sequence (not as a quoted name)."""
    texts = [w.text for w in _words(sql)]
    return any(tuple(texts[i : i + len(words)]) == words for i in range(len(texts)))


def place(sql: str, refused: Refused) -> UnsupportedSql:
    """The refusal with the position of the first word in the text that can mean it."""
    words = _words(sql)
    texts = [w.text for w in words]
    for spelling in refused.spellings:
        parts = spelling.split()
        for i, word in enumerate(words):
            if texts[i : i + len(parts)] == parts:
                return UnsupportedSql(refused.construct, refused.instead, **_place(sql, word.start))
    return UnsupportedSql(refused.construct, refused.instead)


def tokens(sql: str) -> list[Token]:
    """The tokens of the text; none where it cannot be cut into tokens (DataFusion then says why)."""
    try:
        return sqlglot.tokenize(sql, read=_DIALECT)
    except SqlglotError:
        return []


def _words(sql: str) -> list[_Word]:
    """The words of the text."""
    words: list[_Word] = []
    for t in tokens(sql):
        quoted = sql[t.start] in "'\""
        parts = [f"'{t.text}"] if quoted else t.text.lower().split()
        words.extend(_Word(part, t.start) for part in parts)
    return words


def _place(sql: str, start: int) -> dict[str, int]:
    """Line and column, from 1, as arguments of SqlError."""
    before = sql[:start]
    return {"line": before.count("\n") + 1, "column": start - (before.rfind("\n") + 1) + 1}


def _first(sql: str, name: str) -> dict[str, int]:
    """The place of the first word that is `name`, quoted or not."""
    starts = [w.start for w in _words(sql) if w.text.removeprefix("'") in (name, name.lower())]
    return _place(sql, starts[0]) if starts else {}


_NO_FIELD = re.compile(r"No field named (?P<name>.+?)\.(?:\s|$)")
_NO_TABLE = re.compile(r"table '(?P<name>[^']*)' not found")
_NO_FUNCTION = re.compile(r"Invalid function '(?P<name>[^']*)'")
_AT = re.compile(r"\s+at Line: (\d+), Column: (\d+)")
_SYNTAX = re.compile(r'(?:ParserError|TokenizerError)\("(?P<text>.*)"\)', re.DOTALL)
_PREFIXES = re.compile(
    r"^(?:DataFusion error|Error during planning|Schema error|SQL error|Arrow error|Internal error|Cast error"
    r"|This feature is not implemented|Optimizer rule '[^']*' failed\s+caused by)[:\s]+"
)


def explain_error(error: Exception, sql: str, known: Mapping[str, Collection[str]]) -> UserError:
    """What DataFusion found wrong with the text, as an error for its author.

    `known`: the tables and views that may be read, with their columns.
    """
    text = str(error)
    if m := _SYNTAX.search(text):
        said = m["text"].replace('\\"', '"')
        at = _AT.search(said)
        message = "this is not valid SQL: " + _AT.sub("", said).replace("found: EOF", "found the end of the text")
        if at:
            return SqlError(message, line=int(at[1]), column=int(at[2]))
        return SqlError(message, **_place(sql, len(sql.rstrip())))
    if m := _NO_TABLE.search(text):
        return UnknownName("table or view", m["name"].removeprefix("datafusion.").removeprefix("public."), known)
    if m := _NO_FIELD.search(text):
        name = m["name"].replace('"', "")
        columns = {c for of in known.values() for c in of}
        qualified = {f"{t}.{c}" for t, of in known.items() for c in of}
        return UnknownName("column", name, (columns | qualified) - {name})
    if m := _NO_FUNCTION.search(text):
        return SqlError(f"there is no function named {m['name']}", **_first(sql, m["name"]))
    if "Projections require unique expression names" in text or "duplicate qualified field name" in text:
        return SqlError("two columns have the same name; give one of them another name with AS")
    if m := re.search(r"Ambiguous reference to unqualified field (\S+)", text):
        return SqlError(f"column {m[1]} stands in more than one table; write table.{m[1]}", **_first(sql, m[1]))
    if "Correlated scalar subquery must be aggregated" in text:
        what = "a subquery that gives one value and reads columns of the query around it must be an aggregate: "
        return SqlError(what + "write min(...) or max(...) in it", **_subquery_place(sql))
    if "must appear in the GROUP BY" in text and (m := re.search(r'column "([^"]+)"', text)):
        name = m[1].rsplit(".", 1)[-1]
        return SqlError(f"column {m[1]} must stand in GROUP BY or inside an aggregate", **_first(sql, name))
    if m := re.search(r"(DDL|DML|Statement) not supported|single SQL statement|No SQL statements", text):
        return SqlError("a view is defined by exactly one SELECT")
    if m := re.search(r"Function '(\w+)' .*?received (\w+)", text, re.DOTALL):
        return SqlError(
            f"function {m[1]} cannot take an argument of type {_TYPE_NAMES.get(m[2], m[2])}",
            **_first(sql, m[1]),
        )
    return SqlError("this SELECT has no meaning here: " + plain(text))


def _subquery_place(sql: str) -> dict[str, int]:
    texts = _words(sql)
    starts = [a.start for a, b in itertools.pairwise(texts) if (a.text, b.text) == ("(", "select")]
    return _place(sql, starts[0]) if starts else {}


_TYPE_NAMES = {
    "String": "VARCHAR",
    "Utf8": "VARCHAR",
    "Int32": "INTEGER",
    "Int64": "BIGINT",
    "Float64": "DOUBLE",
    "Decimal128": "DECIMAL",
    "Date32": "DATE",
    "Boolean": "BOOLEAN",
}


def plain(error: Exception | str) -> str:
    """The first sentence of a message, without the words of the engine that wrote it."""
    text = str(error)
    while (shorter := _PREFIXES.sub("", text)) != text:
        text = shorter
    text = text.split("\n")[0].split(" {")[0]
    for engine, ours in _TYPE_NAMES.items():
        text = re.sub(rf"\b{engine}\b", ours, text)
    return text.strip().rstrip(".")
