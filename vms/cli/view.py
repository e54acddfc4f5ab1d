"""`vms view`: the materialized views."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vms.cli.sql import explain, read_script
from vms.errors import SqlError

if TYPE_CHECKING:
    from vms.cli.main import Settings
    from vms.manager.script import Query
    from vms.manager.watch import Watch

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.group()
def view() -> None:
    """Declare views, look at them, read and watch them.

    \b
    Examples:
      vms view create totals "SELECT shop, sum(price) AS total FROM sales GROUP BY shop"
      vms view read totals
      vms view watch totals -c "DELETE FROM sales WHERE id = 1"
    """


view.add_command(explain)


@view.command("list")
@_AS_JSON
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> None:
    """All views, with the tables and views that they read.

    \b
    Examples:
      vms view list
      vms view list --json | jq -r '.[] | select(.failing_rows > 0).view'
    """
    from vms.cli.output import write_records
    from vms.manager.status import view_status

    with settings.connect() as db:
        found = [{"view": name, **view_status(db, name)} for name in sorted(db.catalog.views)]
    if as_json:
        click.echo(json.dumps(found))
    else:
        shown = [
            {**{k: v[k] for k in ("view", "rows", "failing_rows")}, "reads": [*v["tables"], *v["views"]]} for v in found
        ]
        write_records(shown, "no views; make one with: vms view create --help", sys.stdout)


@view.command()
@click.argument("name")
@_AS_JSON
@click.pass_obj
def show(settings: Settings, name: str, as_json: bool) -> None:
    """One view: its columns and row key, what it holds, what it reads, and its SELECT.

    \b
    Examples:
      vms view show totals
      vms view show totals --json | jq -r .sql
    """
    from vms.manager.details import view_details

    with settings.connect() as db:
        found = view_details(db, name.lower())
    if as_json:
        click.echo(json.dumps(found))
    else:
        _write(found)


@view.command()
@click.argument("name")
@click.argument("select", required=False)
@click.option("-f", "--file", type=_FILE, metavar="FILE", help="Read the SELECT from this file (- is standard input).")
@click.option("--if-not-exists", is_flag=True, help="Leave a view of that name as it is.")
@click.option(
    "--layout", type=click.Choice(["columns", "packed"]), default="columns", show_default=True,
    help="One cell for each value of a row, or one msgpack cell for all: faster to write, less plain to read.",
)  # fmt: skip
@click.option(
    "--encoding", type=click.Choice(["phoenix", "bytes", "text"]), default="phoenix", show_default=True,
    help="How the values of a row are written, one in a cell.",
)  # fmt: skip
@click.pass_obj
def create(
    settings: Settings,
    name: str,
    select: str | None,
    file: Path | None,
    if_not_exists: bool,
    layout: str,
    encoding: str,
) -> None:
    """Declare a view and wait until it is complete, whatever its tables hold already.

    Whether a SELECT can be a view, and how it would be maintained, is told by: vms explain "SELECT ..."

    \b
    Examples:
      vms view create totals "SELECT shop, sum(price) AS total FROM sales GROUP BY shop"
      vms view create totals --file totals.sql
      vms view create totals --file totals.sql --layout packed
    """
    if (select is None) == (file is None):
        raise click.UsageError("give the SELECT as an argument, or a file with --file")

    from vms.model.catalog import Layout, ViewForm
    from vms.model.table import Encoding

    declared = declared_name(name)
    query = select_of(read_script(file) if file is not None else select or "")
    with settings.connect() as db:
        if if_not_exists and declared in db.catalog.views:
            click.echo(f"view {declared} is there already: left as it is")
            return
        with query.located():
            plan = db.create_view(declared, query.sql, ViewForm(Layout(layout), Encoding(encoding)))
    click.echo("; ".join([f"view {declared} created", *plan.notes]))


@view.command()
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Do not mind if there is none.")
@click.pass_obj
def drop(settings: Settings, name: str, if_exists: bool) -> None:
    """Remove a view; its state and its table are freed.

    \b
    Examples:
      vms view drop totals
      vms view drop totals --if-exists
    """

    name = name.lower()
    with settings.connect() as db:
        if if_exists and name not in db.catalog.views and name not in db.catalog.builds:
            click.echo(f"there is no view {name}: nothing to drop")
        else:
            db.drop_view(name)
            click.echo(f"view {name} dropped")


@view.command()
@click.argument("name")
@click.pass_obj
def rebuild(settings: Settings, name: str) -> None:
    """Make a view anew from its tables.

    For a view that says that it is not right any more, because something happened to a table that its stream of
    changes does not tell, such as a bulk load. All views are made anew together; until they are, reads go on.

    \b
    Examples:
      vms view rebuild totals
    """

    with settings.connect() as db:
        views = db.rebuild_view(name.lower())
    click.echo(f"made anew: {', '.join(views)}")


@view.command()
@click.argument("name")
@click.option(
    "--format", "format_", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True,
    help="How rows are written; the same as in vms sql.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option(
    "--level", type=click.Choice(["any", "latest"]), default="latest", show_default=True,
    help="latest: with everything written until now; any: as of the newest committed epoch, without waiting.",
)  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="How long to wait at most.")
@click.pass_obj
def read(settings: Settings, name: str, format_: str, as_json: bool, level: str, timeout: float | None) -> None:
    """All rows of a view, as of one epoch. To filter and to sort use: vms sql -c "SELECT ..."

    \b
    Examples:
      vms view read totals
      vms view read totals --format csv > totals.csv
      vms view read totals --json | jq '.[0]'
    """
    from vms.cli.output import FORMATS

    with settings.connect() as db:
        rows = db.view(name.lower()).read(level, timeout=timeout)
    format_ = "json" if as_json else format_
    FORMATS[format_](rows, sys.stdout)
    if format_ == "table":
        click.echo(f"({rows.num_rows} row{'' if rows.num_rows == 1 else 's'})")


@view.command()
@click.argument("name")
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Run this meanwhile; may be repeated.")
@click.option("-f", "--file", "files", multiple=True, type=_FILE, metavar="FILE", help="Run this file meanwhile.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="End when nothing changed so long.")
@_AS_JSON
@click.pass_obj
def watch(
    settings: Settings,
    name: str,
    commands: tuple[str, ...],
    files: tuple[Path, ...],
    timeout: float | None,
    as_json: bool,
) -> None:
    """The changed rows of each committed epoch, as they come.

    Column _change is +1 for a row's new content and -1 for a row that is gone. With -c or -f the statements
    are run and the watch ends when the view has what they wrote. The embedded store is open in one process at a
    time: without -c and -f there is nobody else who writes, and only what an earlier process left is seen.

    With --json each epoch is one line: {"epoch": ..., "rows": [...]}.

    \b
    Examples:
      vms view watch totals -c "INSERT INTO sales VALUES (7, 'north', 2.50)"
      vms view watch totals -f changes.sql --json
    """
    from vms.manager.statements import run

    texts = [*commands, *map(read_script, files)]
    with settings.connect() as db:
        watched = db.view(name.lower())
        if not texts:
            _follow(watched.watch(timeout), as_json)
        for text in texts:
            statements = run(db, text)
            while True:
                changes = watched.watch(timeout=0)
                done = next(statements, None)
                if done is None:
                    break
                click.echo(done.message, err=True)
                db.wait(db.session)  # then every change that the statement made has come, and the watch ends there
                _follow(changes, as_json)


def _follow(changes: Watch, as_json: bool) -> None:
    from vms.cli.output import write_json, write_table
    from vms.viewtable.layout import CHANGE

    for epoch, rows in changes:
        shown = rows.select([CHANGE, *(c for c in rows.column_names if c != CHANGE)])
        if as_json:
            text = io.StringIO()
            write_json(shown, text)
            click.echo(f'{{"epoch": {epoch}, "rows": {text.getvalue().strip()}}}')
        else:
            click.echo(f"epoch {epoch}")
            write_table(shown, sys.stdout)
        sys.stdout.flush()


def declared_name(text: str) -> str:
    """The name of a new view, by the rules of SQL."""
    from vms.manager.script import statements

    names = statements(text)
    name = names[0].name("a view") if names else ""
    if len(names) != 1 or not names[0].at_end:
        raise SqlError(f"{text!r} cannot be the name of a view")
    return name


def select_of(text: str) -> Query:
    """The one SELECT that the text is."""
    from vms.manager.parser import Select, parse

    found = parse(text)
    if len(found) != 1 or not isinstance(found[0], Select):
        raise SqlError("a view is declared by one SELECT, and nothing else")
    return found[0].query


def _write(found: dict[str, Any]) -> None:
    from vms.cli.output import write_facts, write_records
    from vms.plan.describe import describe_size

    write_facts(
        {
            "view": found["view"],
            "rows": found["rows"],
            "reads": ", ".join([*found["tables"], *(f"view {v}" for v in found["views"])]),
            "read by": ", ".join(found["read_by"]) or "no view",
            "cells": found["encoding"] if found["layout"] == "columns" else "all values of a row in one",
            "memory": f"{describe_size(found['memory_bytes'])}, of which {describe_size(found['own_bytes'])} its own",
            "failing rows": found["failing_rows"] or "none",
        },
        sys.stdout,
    )
    click.echo("")
    write_records(found["columns"], "", sys.stdout)
    for note in found["notes"]:
        click.echo(f"\nnote: {note}")
    if found["failing_rows"]:
        click.echo(f"\nwarning: it cannot be read: {found['failure']}")
    if found["stopped"]:
        click.echo(f"\nwarning: it is not right any more, rebuild it: {found['stopped']}")
    click.echo(f"\n{found['sql']};")
