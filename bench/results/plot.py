"""The newest run as a picture: for each query with a limit the rates of engine, limit and peers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from bench.results import newest

PICTURE = Path("docs/images/engine.svg")

_BATCH = 1000
_SERIES = (("DuckDB, evaluated anew", "#c9a227"), ("VMS", "#2f6fab"), ("written by hand", "#9a9a9a"))
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 46, 620, 13, 14, 52
_LOWEST, _DECADES = 4, 3  # rates from 10^4 to 10^7 a second


def plot() -> Path:
    about, cells = newest()
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw(about, cells), encoding="utf-8")
    return PICTURE


def draw(about: dict[str, Any], cells: list[dict[str, Any]]) -> str:
    """An SVG of horizontal bars on a logarithmic scale."""
    groups = _rates(cells)
    height = _TOP + len(groups) * (len(_SERIES) * _BAR + _GAP) + 34
    title = (
        f"Changes a second and core, batches of {_BATCH:,}, TPC-H SF {about['sf']}, {about['delete_share']:.0%} deletes"
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 80}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="13">{title}</text>',
    ]
    for i, (name, colour) in enumerate(_SERIES):
        lines.append(f'<rect x="{_LEFT + 170 * i}" y="28" width="10" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{_LEFT + 170 * i + 15}" y="37">{name}</text>')
    y = _TOP
    for query, rates in groups.items():
        lines.append(f'<text x="8" y="{y + 24}">{query.upper()}</text>')
        for name, colour in _SERIES:
            if rates.get(name):
                width = _length(rates[name])
                lines.append(f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_BAR - 2}" fill="{colour}"/>')
                lines.append(f'<text x="{_LEFT + width + 5}" y="{y + 10}">{rates[name] / 1e6:.2f} million</text>')
            y += _BAR
        y += _GAP
    where = (
        f"{escape(about['machine'])}, {about['cores']} cores, one used; load {about['load']}; commit {about['commit']}"
    )
    lines += [f'<text x="{_LEFT}" y="{y + 12}" fill="#666">logarithmic scale; {where}</text>', "</svg>"]
    return "\n".join(lines) + "\n"


def _rates(cells: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for cell in (c for c in cells if c["batch"] == _BATCH):
        if "peer" in cell and cell["query"] in found:
            found[cell["query"]][cell["peer"]] = cell["tuples_per_cpu_s"]
        elif cell.get("limit_tuples_per_cpu_s"):
            found[cell["query"]] = {
                "VMS": cell["tuples_per_cpu_s"],
                "written by hand": cell["limit_tuples_per_cpu_s"],
            }
    return found


def _length(rate: float) -> int:
    return max(1, round(_WIDTH * (math.log10(rate) - _LOWEST) / _DECADES))
