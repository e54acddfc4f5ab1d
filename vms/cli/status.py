"""`vms status`: what is there and how far it has come."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from vms.cli.main import Settings


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_obj
def status(settings: Settings, as_json: bool) -> None:
    """What is there, and how fresh it is.

    \b
    Examples:
      vms status
      vms status --json | jq .views
      vms status --json | jq -e '.dead_letters == 0 and .waiting == 0'
    """
    import vms

    with vms.connect(settings.store) as db:
        found = db.status()
    if as_json:
        click.echo(json.dumps(found))
    else:
        write_status(found)


def write_status(found: Mapping[str, Any]) -> None:
    """For people: what is well in one line each, what is not in words."""
    waiting, views = found["waiting"], found["views"]
    lines = {
        "store": found["store"],
        "epoch": f"{found['epoch']}, generation {found['generation']}",
        "waiting": f"{waiting} changes" if waiting else "nothing: every view is fresh",
        "memory": _size(found["memory_bytes"]),
        "dead letters": found["dead_letters"] or "none",
    }
    if found["rebuilding"]:
        lines["rebuilding"] = f"the views, from their tables: {found['rebuilding']}"
    width = max(map(len, lines)) + 2
    for name, value in lines.items():
        click.echo(f"{name:{width}}{value}")
    _section(
        "tables",
        [(n, t["rows"], ", ".join(t["key"]) or None, t["encoding"], t["dead_letters"], _size(t["memory_bytes"]))
         for n, t in found["tables"].items()],
        ("table", "rows", "key", "encoding", "dead letters", "memory"),
    )  # fmt: skip
    _section(
        "views",
        [(n, v["rows"], v["failing_rows"], _size(v["memory_bytes"])) for n, v in views.items()],
        ("view", "rows", "failing rows", "memory"),
    )
    told = [f"view {n} cannot be read: {v['failure']}" for n, v in views.items() if v["failing_rows"]]
    for text in [*found["warnings"], *told]:
        click.echo(f"\nwarning: {text}")


def _section(title: str, rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> None:
    import pyarrow as pa

    from vms.cli.output import write_table

    click.echo("")
    if rows:
        write_table(pa.table([pa.array(values) for values in zip(*rows)], names=list(columns)), sys.stdout)
    else:
        click.echo(f"no {title}")


def _size(count: int) -> str:
    """Bytes with three digits: `0 B`, `5.56 KB`, `151 MB`."""
    size, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"
