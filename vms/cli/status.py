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
    """
    import vms

    with vms.connect(settings.store) as db:
        found = db.status()
    if as_json:
        click.echo(json.dumps(found, default=str))
        return
    for name, value in found.items():
        _write(name, value)


def _write(name: str, value: Any) -> None:
    """A line for a single value, a table for a collection of them."""
    rows = _rows(name, value)
    if rows is None:
        click.echo(f"{_words(name)}: {value}")
        return
    click.echo(f"\n{_words(name)}:" + ("" if rows else " none"))
    if rows:
        import pyarrow as pa

        from vms.cli.output import as_text, write_table

        columns = list(dict.fromkeys(k for row in rows for k in row))
        texts = {
            _words(c): pa.array([None if row.get(c) is None else as_text(row[c]) for row in rows], pa.string())
            for c in columns
        }
        write_table(pa.table(texts), sys.stdout)


def _rows(name: str, value: Any) -> list[dict[str, Any]] | None:
    """A collection as rows of one table; None for a single value."""
    if isinstance(value, Mapping):
        named = [(k, v if isinstance(v, Mapping) else {"value": v}) for k, v in value.items()]
        return [{"name": k, **v} for k, v in named]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [dict(v) if isinstance(v, Mapping) else {name: v} for v in value]
    return None


def _words(name: str) -> str:
    return name.replace("_", " ")
