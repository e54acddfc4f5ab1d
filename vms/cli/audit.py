"""`vms audit`: whether a view is what its SQL says, asked of another engine."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from vms.cli.bulk import checked_conf, spark_options

if TYPE_CHECKING:
    from vms.bulk.audit import Audit
    from vms.cli.main import Settings

#: Differences shown to people; --json has all.
_SHOWN = 20


@click.command()
@click.argument("view")
@click.option("--repair", is_flag=True, help="Where something differs, make the views anew, and audit again.")
@spark_options
@click.pass_obj
def audit(
    settings: Settings, view: str, repair: bool, master: str | None, conf: tuple[str, ...], as_json: bool
) -> None:
    """Compare a view with its SQL, evaluated by Spark over the base tables at the same cut.

    Spark SQL shares nothing with the View Manager. Writers wait for one epoch, no longer; then both sides are
    read from a copy. Every row that differs is listed with its key, what was expected and what was found. Where
    nothing differs, the view is recorded as verified (vms view list --json).

    Exit code 1: something differs (and was not repaired). Needs Spark: pip install 'vms[bulk]'.

    \b
    Examples:
      vms audit totals
      vms audit totals --repair --master 'local[2]'
      vms audit totals --json | jq .differences
    """
    spark_conf = checked_conf(conf)

    from vms.bulk.audit import audit as run
    from vms.bulk.session import spark_session

    name = view.lower()
    with settings.connect() as db:
        db.catalog.view(name)
        spark = spark_session(master, spark_conf)
        found = run(db, name, spark)
        _write(found, as_json)
        if found.differences and repair:
            db.rebuild_view(name)
            click.echo("the views were made anew; audited again:", err=True)
            found = run(db, name, spark)
            _write(found, as_json)
    if found.differences:
        sys.exit(1)


def _write(found: Audit, as_json: bool) -> None:
    if as_json:
        differences = [{"key": d.key, "expected": d.expected, "found": d.found} for d in found.differences]
        facts: dict[str, Any] = {"view": found.name, "epoch": found.epoch, "rows": found.rows}
        click.echo(json.dumps({**facts, "differences": differences}, default=str))
        return
    if not found.differences:
        click.echo(f"view {found.name} is right: {found.rows} rows, verified through epoch {found.epoch}")
        return
    click.echo(f"view {found.name} as of epoch {found.epoch}: {len(found.differences)} rows differ")
    for d in found.differences[:_SHOWN]:
        expected, there = (_row(r) for r in (d.expected, d.found))
        click.echo(f"  {_row(d.key)}: expected {expected}, found {there}")
    if len(found.differences) > _SHOWN:
        click.echo(f"  and {len(found.differences) - _SHOWN} more: --json lists all")


def _row(values: Any) -> str:
    return "no row" if values is None else ", ".join(f"{k}={v}" for k, v in values.items()) or "the one row"
