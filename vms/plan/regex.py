"""Regular expressions as DataFusion reads them (those of Rust) -> RE2, which we match with.

Both match in linear time and prefer the same match. They differ in what they call a digit, a space or a part of a
word: Rust means Unicode's, so these are spelled out here. What RE2 does not know, or reads in another way, is refused.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_DIGIT = r"\p{Nd}"
_SPACE = r"\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
#: Alphabetic (letters, letter numbers, and some circled letters that are symbols), marks, digits, connectors, joiners.
_WORD = (
    r"\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\x{200C}\x{200D}"
    r"\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}"
)
_CLASSES = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
_HEX = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]{1,8})\})")
_PROPERTY = re.compile(r"\\[pP](?:[A-Z]|\{\^?[A-Z]\w*\})")
_REPEAT = re.compile(r"\{\d+(?:,\d*)?\}")
_GROUP = re.compile(r"\((?:\?(?:P?<[A-Za-z_]\w*>|[imsU]*(?:-[imsU]+)?[:)]))?")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
_SAME_ESCAPES = "aftnrv"


def to_re2(pattern: str) -> str:
    """The expression for RE2. Raises ValueError with a reason where there is none."""
    parts, i = [], 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            part, i = _escape(pattern, i, in_class=False)
        elif c == "[":
            part, i = _class(pattern, i)
        else:
            found = {"(": _GROUP, "{": _REPEAT}.get(c)
            m = found.match(pattern, i) if found else None
            if found and m is None:
                raise ValueError(f"{pattern[i : i + 6]} is not known here")
            part, i = (m[0], m.end()) if m else ("\\x00" if c == "\0" else c, i + 1)
            part = "(" if part.startswith(("(?P<", "(?<")) else part
        parts.append(part)
    result = "".join(parts)
    try:
        pc.match_substring_regex(pa.array([""]), result)
    except pa.ArrowInvalid as error:
        raise ValueError(str(error).partition(": ")[2] or str(error)) from None
    return result


def _escape(pattern: str, i: int, in_class: bool) -> tuple[str, int]:
    """What stands for the backslash at i and what it escapes, and where it goes on."""
    if m := _HEX.match(pattern, i):
        digits = next(g for g in m.groups() if g)
        return f"\\x{{{digits}}}", m.end()
    if m := _PROPERTY.match(pattern, i):
        return m[0], m.end()
    c = pattern[i + 1 : i + 2]
    if c.lower() in _CLASSES and c:
        inside, negated = _CLASSES[c.lower()], c.isupper()
        if not in_class:
            return f"[{'^' if negated else ''}{inside}]", i + 2
        if negated and c != "D":
            raise ValueError(f"\\{c} in brackets is not known here")
        return (r"\P{Nd}" if negated else inside), i + 2
    if c and c in _SAME_ESCAPES:
        return "\\" + c, i + 2
    if c and c in "Az" and not in_class:
        return "\\" + c, i + 2
    if c and c.isascii() and not c.isalnum() and c not in "<>":
        return _literal(c), i + 2
    raise ValueError(f"\\{c} is not known here")


def _class(pattern: str, i: int) -> tuple[str, int]:
    """The characters in brackets that begin at i."""
    parts, start = ["["], i + 1
    if pattern[start : start + 1] == "^":
        parts.append("^")
        start += 1
    i = start
    while i < len(pattern):
        c = pattern[i]
        if c == "]" and i > start:
            return "".join([*parts, "]"]), i + 1
        if pattern[i : i + 2] in ("&&", "--", "~~"):
            raise ValueError(f"{pattern[i : i + 2]} in brackets is not known here")
        if c == "\\":
            part, i = _escape(pattern, i, in_class=True)
        elif c == "[":
            m = _POSIX.match(pattern, i)
            if m is None:
                raise ValueError("brackets in brackets are not known here")
            part, i = m[0], m.end()
        else:
            part, i = (c if c == "-" else _literal(c)), i + 1
        parts.append(part)
    raise ValueError("a bracket is not closed")


def _literal(c: str) -> str:
    if c == "\0":
        return "\\x00"
    return c if c.isalnum() or ord(c) >= 128 or c == "_" else "\\" + c
