"""`vms table`: the base tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from vms.errors import SqlError

if TYPE_CHECKING:
    from vms.cli.main import Settings

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")


@click.group()
def table() -> None:
    """Declare tables, and look at them.

    \b
    Examples:
      vms table create sales "id BIGINT" "shop VARCHAR" "price DECIMAL(9, 2) NOT NULL" --key id
      vms load sales sales.csv
      vms table show sales
    """


@table.command("list")
@_AS_JSON
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> None:
    """All tables, with their keys and the views that read them.

    \b
    Examples:
      vms table list
      vms table list --json | jq -r '.[].table'
    """
    from vms.cli.output import write_records

    with settings.connect() as db:
        found = [
            {
                "table": name,
                "key": [] if t.hidden_key else list(t.key),
                "columns": len(t.visible_columns),
                "encoding": t.encoding.value,
                "views": db.readers(name),
            }
            for name, t in sorted(db.catalog.tables.items())
        ]
    if as_json:
        click.echo(json.dumps(found))
    else:
        write_records(found, "no tables; make one with: vms table create --help", sys.stdout)


@table.command()
@click.argument("name")
@_AS_JSON
@click.pass_obj
def show(settings: Settings, name: str, as_json: bool) -> None:
    """One table: its columns, what it holds, who reads it, and how it was declared.

    Values that could not be decoded are listed with their position and the reason.

    \b
    Examples:
      vms table show sales
      vms table show sales --json | jq -r .sql > sales.sql
    """
    from vms.manager.details import table_details

    with settings.connect() as db:
        found = table_details(db, name.lower())
    if as_json:
        click.echo(json.dumps(found))
    else:
        _write(found)


@table.command()
@click.argument("name")
@click.argument("columns", nargs=-1, required=True, metavar="COLUMN...")
@click.option("--key", metavar="NAMES", help="The columns of the primary key, between commas.")
@click.option("--family", metavar="NAME", help="The column family that the cells are in.  [default: d]")
@click.option(
    "--encoding",
    type=click.Choice(["bytes", "text", "phoenix"]),
    help="How values are written: as HBase's Bytes class does, as text, or as Phoenix does.  [default: bytes]",
)
@click.option("--rows", type=click.IntRange(min=0), help="How many rows to expect; helps to order joins.")
@click.option("--if-not-exists", is_flag=True, help="Leave a table of that name as it is.")
@click.pass_obj
def create(
    settings: Settings,
    name: str,
    columns: tuple[str, ...],
    key: str | None,
    family: str | None,
    encoding: str | None,
    rows: int | None,
    if_not_exists: bool,
) -> None:
    """Declare a table. Each COLUMN is a name, a type and possibly NOT NULL.

    The types are BOOLEAN, INTEGER, BIGINT, DECIMAL(p, s), DOUBLE, DATE, TIMESTAMP, VARCHAR. Without --key the
    table gets a hidden generated key, and keeps duplicates.

    \b
    Examples:
      vms table create sales "id BIGINT" "shop VARCHAR" "price DECIMAL(9, 2) NOT NULL" --key id
      vms table create readings "sensor VARCHAR" "at TIMESTAMP" "value DOUBLE" --key sensor,at
      vms table create events "what VARCHAR" "n INTEGER" --encoding phoenix --family cf
    """
    values = {"family": family and _text(family), "encoding": encoding and _text(encoding), "rows": rows}
    options = ", ".join(f"{k} = {v}" for k, v in values.items() if v is not None)
    items = [*columns, *([f"PRIMARY KEY ({key})"] if key else [])]
    text = f"CREATE TABLE {name} (\n" + ",\n".join(items) + "\n)" + (f"\nWITH ({options})" if options else "")

    from vms.manager.ddl import parse_create_table

    try:
        declared = parse_create_table(text)
    except SqlError as error:
        raise _in_argument(error, items) from None
    with settings.connect() as db:
        if if_not_exists and declared.name in db.catalog.tables:
            click.echo(f"table {declared.name} is there already: left as it is")
        else:
            note = db.create_table(declared)
            click.echo(f"table {declared.name} created{note and ' ' + note}")


@table.command()
@click.argument("name")
@click.option("--if-exists", is_flag=True, help="Do not mind if there is none.")
@click.pass_obj
def drop(settings: Settings, name: str, if_exists: bool) -> None:
    """Remove a table with all its rows. A table that a view reads stays: drop the view first.

    \b
    Examples:
      vms table drop sales
      vms table drop sales --if-exists
    """

    name = name.lower()
    with settings.connect() as db:
        if if_exists and name not in db.catalog.tables:
            click.echo(f"there is no table {name}: nothing to drop")
        else:
            db.drop_table(name)
            click.echo(f"table {name} dropped")


def _in_argument(error: SqlError, items: Sequence[str]) -> SqlError:
    """The same error with the argument that stands in its line instead of a place in a text that nobody wrote.

    The first item is in line 2; what is missing in the last one is missed at the bracket in the line after it.
    """
    message = str(error).removesuffix(f" (line {error.line}, column {error.column})")
    at = (error.line or 0) - 2
    return SqlError(f'{message}, in "{items[min(at, len(items) - 1)]}"' if 0 <= at <= len(items) else message)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _write(found: dict[str, Any]) -> None:
    from vms.cli.output import write_facts, write_records
    from vms.plan.describe import describe_size

    write_facts(
        {
            "table": found["table"],
            "rows": found["rows"],
            "key": ", ".join(found["key"]) or "hidden, generated: duplicates are kept",
            "encoding": f"{found['encoding']}, in column family {found['family']}",
            "views": ", ".join(found["views"]) or "none reads it",
            "memory": describe_size(found["memory_bytes"]),
            **({"before-images": found["images"]} if found["images"] else {}),
            "dead letters": found["dead_letters"] or "none",
        },
        sys.stdout,
    )
    click.echo("")
    write_records(found["columns"], "", sys.stdout)
    if found["letters"]:
        click.echo("\nvalues that could not be decoded (row keys and values in hexadecimal):")
        write_records(found["letters"], "", sys.stdout)
    click.echo(f"\n{found['sql']};")
