"""A script of SQL statements: where each begins and ends, where its clauses are, and where an error stands.

sqlglot's tokenizer finds words, texts and comments; nothing is parsed or rewritten here. What DataFusion is
to understand is cut out of the script unchanged (`Piece`) and carries its place with it (`Query`), so that
every error names the line and column of the script its author wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from vms.errors import SqlError

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_OPEN, _CLOSE = {"(", "[", "{"}, {")", "]", "}"}
_QUOTE_STARTS = re.compile(r"""['"`]|/\*|\$\w*\$""")


_SIGNS = {k: v for k, v in Postgres.Tokenizer.KEYWORDS.items() if not re.search(r"[A-Za-z{}]", k)}


class _Tokenizer(Postgres.Tokenizer):
    """Texts, comments and quoted names as DataFusion reads them; every word is just a word."""

    COMMANDS: ClassVar = set()
    IDENTIFIERS: ClassVar = ['"', "`"]
    KEYWORDS: ClassVar = _SIGNS


class Piece(NamedTuple):
    """A stretch of the script: start <= offset < stop."""

    start: int
    stop: int


class Query:
    """SQL for DataFusion, made of pieces of the script and of words of ours between them."""

    def __init__(self, script: str, *parts: str | Piece) -> None:
        self._script = script
        self._pieces: list[tuple[int, Piece]] = []
        sql = ""
        for part in parts:
            if isinstance(part, Piece):
                self._pieces.append((len(sql), part))
                part = script[part.start : part.stop]
            sql += part
        self.sql = sql

    @classmethod
    def of(cls, text: str) -> Query:
        """A text that is a query as a whole."""
        return cls(text, Piece(0, len(text)))

    @contextmanager
    def located(self) -> Iterator[None]:
        """A SqlError raised within, by whoever reads `sql`, leaves with its position in the script."""
        try:
            yield
        except SqlError as error:
            self._locate(error)
            raise

    def _locate(self, error: SqlError) -> None:
        """Turn the position that `error` has in `sql` into the one in the script.

        Words of ours have no place in the script: an error there is put where the next piece begins, or
        where the last one ends.
        """
        if error.line is None or error.column is None:
            return
        offset = _offset(self.sql, error.line, error.column)
        found = self._pieces[-1][1].stop
        for at, piece in reversed(self._pieces):
            if offset < at + piece.stop - piece.start:
                found = piece.start + max(0, offset - at)
        message = str(error).removesuffix(f" (line {error.line}, column {error.column})")
        error.line, error.column = position(self._script, found)
        error.args = (f"{message} (line {error.line}, column {error.column})",)


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _offset(text: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return start + column - 1


def error_at(text: str, offset: int, message: str) -> SqlError:
    line, column = position(text, offset)
    return SqlError(message, line=line, column=column)


def tokens_of(text: str) -> list[Token]:
    """The tokens without comments; raises SqlError where a text, quoted name or comment is not closed."""
    try:
        return _Tokenizer().tokenize(text)
    except TokenError:
        raise error_at(text, _unclosed(text), "this is opened and never closed") from None


def _unclosed(text: str) -> int:
    """The offset of the quote or comment that is open at the end: all before it can be read."""
    for match in reversed(list(_QUOTE_STARTS.finditer(text))):
        try:
            _Tokenizer().tokenize(text[: match.start()])
        except TokenError:
            continue
        return match.start()
    return 0


def statements(text: str) -> list[Cursor]:
    """The statements of a script, without the semicolons between them; empty ones are left out."""
    found: list[list[Token]] = [[]]
    for token in tokens_of(text):
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [Cursor(text, tokens) for tokens in found if tokens]


def is_complete(text: str) -> bool:
    """Whether nothing is missing at the end of what has been typed: it ends with a semicolon, or is empty."""
    try:
        tokens = tokens_of(text)
    except SqlError:
        return False
    return not tokens or tokens[-1].token_type is TokenType.SEMICOLON


def names_in(text: str) -> set[str]:
    """Every word or quoted name that a table could be called by; of `table.column` only the first."""
    tokens = tokens_of(text)
    words = (TokenType.VAR, TokenType.IDENTIFIER)
    return {
        _folded(t)
        for i, t in enumerate(tokens)
        if t.token_type in words and not (i and tokens[i - 1].token_type is TokenType.DOT)
    }


def quoted(name: str) -> str:
    """A name as SQL text that means exactly it."""
    return '"' + name.replace('"', '""') + '"'


def _folded(token: Token) -> str:
    return token.text if token.token_type is TokenType.IDENTIFIER else token.text.lower()


class Cursor:
    """A place in one statement, moved forward as its words are understood."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text, self._tokens, self._at = text, tokens, 0

    def word(self, ahead: int = 0) -> str:
        """The next word or sign in lower case; empty for a text, a number, a quoted name and at the end."""
        if self._at + ahead >= len(self._tokens):
            return ""
        token = self._tokens[self._at + ahead]
        plain = token.end - token.start + 1 == len(token.text) and token.token_type is not TokenType.NUMBER
        return token.text.lower() if plain else ""

    @property
    def offset(self) -> int:
        """Where the next token begins; after the last one, where that ends."""
        return self._tokens[self._at].start if not self.at_end else self._tokens[-1].end + 1

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def shown(self, count: int = 1) -> str:
        """The next tokens as their author wrote them, for messages."""
        if self.at_end:
            return "the end of the statement"
        return " ".join(self.text[t.start : t.end + 1] for t in self._tokens[self._at : self._at + count])

    def error(self, message: str, offset: int | None = None) -> SqlError:
        return error_at(self.text, self.offset if offset is None else offset, message)

    def accept(self, *words: str) -> bool:
        """Move over `words` if they come next."""
        if any(self.word(i) != w for i, w in enumerate(words)):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str, where: str) -> None:
        """Move over `words`, which must come next."""
        for word in words:
            if not self.accept(word):
                raise self.error(f"expected {word.upper()} {where}, found {self.shown()}")

    def end(self, where: str) -> None:
        """Nothing may follow."""
        if not self.at_end:
            raise self.error(f"expected the end of the statement {where}, found {self.shown()}")

    def name(self, what: str) -> str:
        """A name, in lower case unless quoted, as DataFusion reads it."""
        if self.at_end or self._tokens[self._at].token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
            raise self.error(f"expected the name of {what}, found {self.shown()}")
        name = _folded(self._tokens[self._at])
        if not _NAME.fullmatch(name):
            raise self.error(
                f"{self.shown()} cannot be the name of {what}: names are made of a-z, 0-9 and _,"
                " begin with no digit, and have no capital letters"
            )
        self._at += 1
        if self.word() == ".":
            raise self.error(f"{what} is named without a schema or database before it; write the last part alone")
        return name

    def number(self, what: str) -> int:
        """A whole number, not negative."""
        if self.at_end or self._tokens[self._at].token_type is not TokenType.NUMBER or not self.shown().isdigit():
            raise self.error(f"expected {what} as a whole number, found {self.shown()}")
        self._at += 1
        return int(self._tokens[self._at - 1].text)

    def string(self, what: str) -> str:
        """A text in single quotes."""
        if self.at_end or self._tokens[self._at].token_type is not TokenType.STRING:
            raise self.error(f"expected {what} in single quotes, found {self.shown()}")
        self._at += 1
        return self._tokens[self._at - 1].text

    def piece(self, *stops: str) -> Piece:
        """Move to the next of `stops` that stands outside all brackets (or to the end); what was passed.

        `FROM` does not count where it belongs to IS DISTINCT FROM.
        """
        first, start, depth, before = self._at, self.offset, 0, ""
        while not self.at_end:
            word = self.word()
            if depth == 0 and (word in _CLOSE or (word in stops and (before, word) != ("distinct", "from"))):
                break
            depth += (word in _OPEN) - (word in _CLOSE)
            before = word
            self._at += 1
        return Piece(start, self._tokens[self._at - 1].end + 1 if self._at > first else start)

    def since(self, start: int) -> Piece:
        """What was passed since the offset `start`."""
        return Piece(start, self._tokens[self._at - 1].end + 1)

    def bracketed(self, where: str) -> list[Piece]:
        """The parts between the commas of a list in brackets, which must come next."""
        self.expect("(", where=where)
        parts = [self.piece(",")]
        while self.accept(","):
            parts.append(self.piece(","))
        self.expect(")", where=where)
        return parts
