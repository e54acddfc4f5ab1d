"""Measure all queries, and write what came out with what it ran on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench import engine
from bench.micro.limits import LIMITS
from bench.results import FOLDER
from bench.tpch import queries

_SF, _DELETES, _SEED = 0.1, 0.09, 1
_BATCHES = [100, 1000, 10_000]


def record() -> Path:
    """Queries with a limit first, at each batch size beside their limit and the peers; the others at 1,000."""
    now = datetime.now(UTC)
    others = [name for name in queries.names() if name not in LIMITS]
    path = FOLDER / f"{now:%Y-%m-%d-%H%M}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        print(json.dumps(_about(now)), file=file)
        for names, batches, peers in ((list(LIMITS), _BATCHES, True), (others, [1000], False)):
            for cell in engine.run(names, batches, _SF, _DELETES, _SEED, peers=peers):
                print(json.dumps(cell), file=file, flush=True)
                print(cell["query"], cell["batch"], cell["tuples_per_cpu_s"], file=sys.stderr)
    return path


def _about(now: datetime) -> dict[str, object]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "time": now.isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "machine": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "sf": _SF,
        "delete_share": _DELETES,
        "seed": _SEED,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
