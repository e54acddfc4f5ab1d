"""Measurements as data: one file a run, JSON lines, the machine and the commit first.

`python -m bench.results record` measures and writes a file here; `plot` draws the newest one as an SVG.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def newest() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Of the newest run: what it ran on, and its cells."""
    lines = max(FOLDER.glob("*.jsonl")).read_text(encoding="utf-8").splitlines()
    about, *cells = (json.loads(line) for line in lines)
    return about, cells
