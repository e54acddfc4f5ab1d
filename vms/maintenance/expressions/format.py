"""Single values to text and back, in DataFusion's forms: for casts (once a distinct value) and for messages.

A parser gives the value's code as an integer (doubles: their bits), or None where the text is no such value.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np

from vms.model.arrow import double_bits
from vms.model.types import Kind, SqlType

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?")
_DOUBLE = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.I)
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_COMPACT_DATE = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
_TIMESTAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))?)?"
)
_TRUE = {"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"}
_FALSE = {"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"}


def format_value(code: int, type_: SqlType) -> str:
    """The text of a value that is not text itself."""
    match type_.kind:
        case Kind.BOOLEAN:
            return "true" if code else "false"
        case Kind.DECIMAL:
            digits = str(abs(code)).rjust(type_.scale + 1, "0")
            whole, fraction = digits[: len(digits) - type_.scale], digits[len(digits) - type_.scale :]
            return ("-" if code < 0 else "") + whole + ("." + fraction if fraction else "")
        case Kind.DOUBLE:
            return _format_double(float(np.int64(code).view(np.float64)))
        case Kind.DATE:
            return _signed_year(str(np.datetime64(code, "D")))
        case Kind.TIMESTAMP:
            text = _signed_year(str(np.datetime64(code, "us")))
            return re.sub(r"\.000000$|(?<=\.[0-9]{3})000$", "", text)
    return str(code)


def parse_value(text: str, type_: SqlType) -> int | None:
    """The code of the value that `text` writes (any number of digits; the caller checks the range)."""
    match type_.kind:
        case Kind.BOOLEAN:
            word = text.strip().lower()
            return 1 if word in _TRUE else 0 if word in _FALSE else None
        case Kind.INTEGER | Kind.BIGINT:
            text = text.strip()
            return int(text) if _INTEGER.fullmatch(text) and len(text) <= 64 else None
        case Kind.DECIMAL:
            return _parse_decimal(text.strip(), type_.scale)
        case Kind.DOUBLE:
            text = text.strip()
            return int(double_bits(np.array([float(text)]))[0]) if _DOUBLE.fullmatch(text) else None
        case Kind.DATE:
            return _parse_date(text)
        case Kind.TIMESTAMP:
            return _parse_timestamp(text)
    return None


def _format_double(x: float) -> str:
    """Shortest digits that give the same double; plain from 1e-5 up to 1e16, else with an exponent."""
    if x != x:
        return "NaN"
    if x in (float("inf"), float("-inf")):
        return "inf" if x > 0 else "-inf"
    sign, digit_tuple, exponent = Decimal(repr(x)).as_tuple()
    digits = "".join(map(str, digit_tuple)).rstrip("0") or "0"
    point = len(digit_tuple) + int(exponent) if x else 1
    minus = "-" if sign else ""
    if 0 < point <= 16:
        digits = digits.ljust(point, "0")
        return f"{minus}{digits[:point]}.{digits[point:] or '0'}"
    if -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{minus}{mantissa}e{point - 1}"


def _signed_year(text: str) -> str:
    """Years beyond 9999 carry a sign."""
    return "+" + text if text[0] != "-" and text.index("-") > 4 else text


def _parse_decimal(text: str, scale: int) -> int | None:
    m = _DECIMAL.fullmatch(text)
    if m is None or len(text) > 128 or not (m[2] or m[3]):
        return None
    fraction = m[3] or ""
    number = int((m[2] or "0") + fraction[:scale].ljust(scale, "0"))
    if len(fraction) > scale and fraction[scale] >= "5":
        number += 1
    return -number if m[1] == "-" else number


def _parse_date(text: str) -> int | None:
    m = _DATE.fullmatch(text) or _COMPACT_DATE.fullmatch(text)
    if m:
        return _days(f"{m[1]}-{m[2]:0>2}-{m[3]:0>2}")
    micros = _parse_timestamp(text)
    return None if micros is None else micros // 86_400_000_000


def _parse_timestamp(text: str) -> int | None:
    m = _TIMESTAMP.fullmatch(text)
    days = _days(m[1]) if m else None
    if m is None or days is None:
        return None
    hours, minutes, seconds = (int(p or 0) for p in m.group(2, 3, 4))
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    offset = (int(m[7]) * 60 + int(m[8])) * (-1 if m[6] == "-" else 1) if m[6] else 0
    micros = int((m[5] or "")[:6].ljust(6, "0"))
    return ((days * 1440 + hours * 60 + minutes - offset) * 60 + seconds) * 1_000_000 + micros


def _days(date: str) -> int | None:
    try:
        return int(np.datetime64(date, "D").astype(np.int64))
    except ValueError:
        return None
