"""Dates and timestamps: parts, truncation, intervals and differences, in the proleptic Gregorian calendar.

A timestamp has no time zone. A month added to a day that the other month does not have gives that month's last
day. Results outside of what their type holds fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from vms.errors import UnsupportedSql
from vms.maintenance.expressions.value import INT32, INT64, Run, Value, in_range, mark
from vms.model.changes import Int64
from vms.model.types import Kind
from vms.plan.expr import Call, Literal

_SECOND = 1_000_000
_MINUTE, _HOUR, _DAY = 60 * _SECOND, 3600 * _SECOND, 86_400 * _SECOND
#: 1970-01-01 was a Thursday: days + 3 counts from a Monday, days + 4 from a Sunday.
_MONDAY, _SUNDAY = 3, 4
#: Years up to about 290,000 fit 64 bits of microseconds: what goes further fails, and nothing on the way overflows.
_MOST_MONTHS, _MOST_DAYS = 12 * 290_000, 365 * 290_000


def runner(e: Call) -> Run | None:
    """The function of a call of this family."""
    match e.function:
        case "date_part":
            part, of_date = _PARTS[_word(e)], e.args[1].type.kind is Kind.DATE
            return lambda v: _part(v[1], part, of_date)
        case "date_trunc":
            cut = _truncation(_word(e))
            return lambda v: Value(cut(v[1].codes)).with_state_of(v[1])
        case "add_interval":
            of_date = e.type.kind is Kind.DATE
            return lambda v: _add_interval(v, of_date)
        case "add_seconds":
            return lambda v: _add_seconds(v[0], v[1])
        case "subtract" if {a.type.kind for a in e.args} == {Kind.DATE}:
            return lambda v: Value(v[0].codes - v[1].codes).with_state_of(v[0], v[1])
    return None


def _word(e: Call) -> str:
    word = e.args[0]
    if not isinstance(word, Literal):
        raise UnsupportedSql(f"{e.function} of a part that is no constant")
    return str(word.value)


# --- parts


def _months(days: Int64) -> Int64:
    """Months since January 1970."""
    return days.view("M8[D]").astype("M8[M]").view(np.int64)


def _years(days: Int64) -> Int64:
    """Years since 1970."""
    return days.view("M8[D]").astype("M8[Y]").view(np.int64)


def _first_of_month(months: Int64) -> Int64:
    return months.view("M8[M]").astype("M8[D]").view(np.int64)


def _first_of_year(years: Int64) -> Int64:
    return years.view("M8[Y]").astype("M8[D]").view(np.int64)


def _thursday(days: Int64) -> Int64:
    """The Thursday of the same week, whose year is the week's."""
    return days - (days + _MONDAY) % 7 + _MONDAY


def _week(days: Int64) -> Int64:
    thursday = _thursday(days)
    return (thursday - _first_of_year(_years(thursday))) // 7 + 1


#: Parts, each a function of days and of microseconds of the day.
_PARTS: dict[str, Callable[[Int64, Int64], np.ndarray]] = {
    "year": lambda d, _: _years(d) + 1970,
    "isoyear": lambda d, _: _years(_thursday(d)) + 1970,
    "quarter": lambda d, _: _months(d) % 12 // 3 + 1,
    "month": lambda d, _: _months(d) % 12 + 1,
    "week": lambda d, _: _week(d),
    "day": lambda d, _: d - _first_of_month(_months(d)) + 1,
    "doy": lambda d, _: d - _first_of_year(_years(d)) + 1,
    "dow": lambda d, _: (d + _SUNDAY) % 7,
    "isodow": lambda d, _: (d + _MONDAY) % 7 + 1,
    "hour": lambda _, t: t // _HOUR,
    "minute": lambda _, t: t % _HOUR // _MINUTE,
    "second": lambda _, t: t % _MINUTE // _SECOND,
    "millisecond": lambda _, t: t % _MINUTE // 1000,
    "microsecond": lambda _, t: t % _MINUTE,
    "nanosecond": lambda _, t: t % _MINUTE * 1000,
    "epoch": lambda d, t: (d * _DAY + t) / float(_SECOND),
}


def _part(a: Value, part: Callable[[Int64, Int64], np.ndarray], of_date: bool) -> Value:
    days, time = (a.codes, np.zeros_like(a.codes)) if of_date else np.divmod(a.codes, _DAY)
    found = part(days, time)
    return (Value.of_doubles(found) if found.dtype == np.float64 else Value(found)).with_state_of(a)


# --- truncation

_UNITS = {"microsecond": 1, "millisecond": 1000, "second": _SECOND, "minute": _MINUTE, "hour": _HOUR, "day": _DAY}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def _truncation(unit: str) -> Callable[[Int64], Int64]:
    """The function that takes timestamps back to the start of their unit."""
    if unit in _UNITS:
        size = _UNITS[unit]
        return lambda codes: codes - codes % size
    if unit == "week":
        return lambda codes: (_thursday(codes // _DAY) - _MONDAY) * _DAY
    count = _MONTHS[unit]

    def months(codes: Int64) -> Int64:
        found = _months(codes // _DAY)
        return _first_of_month(found - found % count) * _DAY

    return months


# --- intervals


def _add_interval(v: list[Value], of_date: bool) -> Value:
    """A date or timestamp, months, days and microseconds, added in this order; a date takes whole days only."""
    a, months, days, micros = v
    over = (np.abs(months.codes) > _MOST_MONTHS) | (np.abs(days.codes) > _MOST_DAYS)
    day, time = (a.codes, np.zeros(1, np.int64)) if of_date else np.divmod(a.codes, _DAY)
    if months.codes.any():
        day = _add_months(day, np.clip(months.codes, -_MOST_MONTHS, _MOST_MONTHS))
    day = day + np.clip(days.codes, -_MOST_DAYS, _MOST_DAYS)
    if of_date:
        whole = np.sign(micros.codes) * (np.abs(micros.codes) // _DAY)
        moved = in_range(Value(day + whole).with_state_of(*v), INT32)
    else:
        whole, rest = np.divmod(micros.codes, _DAY)
        carried, time = np.divmod(time + rest, _DAY)
        day = day + whole + carried
        over = over | (np.abs(day) > _MOST_DAYS)
        moved = Value(np.clip(day, -_MOST_DAYS, _MOST_DAYS) * _DAY + time).with_state_of(*v)
    return mark(moved, np.broadcast_to(over, len(moved.codes))) if over.any() else moved


def _add_seconds(a: Value, seconds: Value) -> Value:
    """A date and a number of seconds, which fails where DataFusion's, of nanoseconds, overflows."""
    most = INT64[1] // 1_000_000_000
    over = (seconds.codes > most) | (seconds.codes < -most)
    micros = replace(seconds, codes=np.clip(seconds.codes, -most, most) * _SECOND, bounds=None, tight=False)
    zero = Value(np.zeros(1, np.int64))
    return _add_interval([a, zero, zero, mark(micros, over)], of_date=True)


def _add_months(days: Int64, count: Int64) -> Int64:
    months = _months(days)
    in_month = days - _first_of_month(months)
    target = months + count
    return np.minimum(_first_of_month(target) + in_month, _first_of_month(target + 1) - 1)
