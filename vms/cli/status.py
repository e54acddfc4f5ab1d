"""`vms status`: what is there and how far it has come."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from vms.cli.output import write_facts, write_records
from vms.plan.describe import describe_size, listed

if TYPE_CHECKING:
    from vms.cli.main import Settings


#: Shared operations that are shown; JSON has all.
_SHOWN = 12


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_obj
def status(settings: Settings, as_json: bool) -> None:
    """What is there, and how fresh it is.

    \b
    Examples:
      vms status
      vms status --json | jq .views
      vms status --json | jq -r '.parts[] | select(.views | length > 1) | .operation'
      vms status --json | jq -e '.dead_letters == 0 and .waiting == 0'
    """

    with settings.connect() as db:
        found = db.status()
    if as_json:
        click.echo(json.dumps(found))
    else:
        write_status(found, sys.stdout)


def write_status(found: Mapping[str, Any], out: TextIO) -> None:
    """For people: what is well in one line each, what is not in words."""
    waiting, tables, views = found["waiting"], found["tables"], found["views"]
    facts = {
        "store": found["store"],
        "epoch": f"{found['epoch']}, generation {found['generation']}",
        "waiting": f"{waiting} changes" if waiting else "nothing: every view is fresh",
        "memory": describe_size(found["memory_bytes"]),
        **({"disk": describe_size(found["disk_bytes"])} if "disk_bytes" in found else {}),
        "dead letters": found["dead_letters"] or "none",
    }
    if found["rebuilding"]:
        facts["rebuilding"] = f"the views, from their tables: {found['rebuilding']}"
    write_facts(facts, out)
    if found["managers"]:
        out.write("\n")
        write_records([_manager(m) for m in found["managers"]], "", out)
    columns = ("rows", "key", "encoding", "dead_letters")
    out.write("\n")
    write_records([_record("table", n, t, columns) for n, t in tables.items()], "no tables", out)
    out.write("\n")
    write_records([_view(n, v) for n, v in views.items()], "no views", out)
    _write_shared([p for p in found["parts"] if len(p["views"]) > 1], out)
    for name in found["building"]:
        out.write(f"\nview {name} is being built by a bulk job; vms bulk resume {name} goes on where one was cut off\n")
    for name, rows in found["scanning"].items():
        out.write(f"\ntable {name} is being read for a new view: {rows} rows so far\n")
    told = [f"view {n} cannot be read: {v['failure']}" for n, v in views.items() if v["failing_rows"]]
    told += [f"view {n} is not right, rebuild it: {v['stopped']}" for n, v in views.items() if v["stopped"]]
    for text in [*found["warnings"], *told]:
        out.write(f"\nwarning: {text}\n")


def _view(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """`own` is the part of the memory that no other view uses."""
    reads = [*values["tables"], *values["views"]]
    record = _record("view", name, {**values, "reads": reads}, ("rows", "failing_rows", "reads"))
    return {**record, "own": describe_size(values["own_bytes"])}


def _write_shared(parts: Sequence[Mapping[str, Any]], out: TextIO) -> None:
    """What several views have in common, the largest first; each is there once."""
    if not parts:
        return
    out.write("\n")
    records = [
        {"shared": p["operation"], "used by": listed(p["views"]), "memory": describe_size(p["memory_bytes"])}
        for p in parts[:_SHOWN]
    ]
    write_records(records, "", out)
    if len(parts) > _SHOWN:
        out.write(f"and {len(parts) - _SHOWN} more that are shared: vms status --json\n")


def _manager(found: Mapping[str, Any]) -> dict[str, Any]:
    members = found["members"]
    return {
        "manager": found["id"],
        "leads": "yes" if found.get("leads") else "",
        "members": ", ".join(members) or "none",
        "slots": sum(member["slots"] for member in members.values()),
        "epoch": found.get("epoch", "?"),
        "backlog": found.get("backlog", {}).get("entries", "?"),
        "memory": describe_size(sum(found.get("memory_bytes", {}).values())),
    }


def _record(kind: str, name: str, values: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    return {kind: name, **{c: values[c] for c in columns}, "memory": describe_size(values["memory_bytes"])}
