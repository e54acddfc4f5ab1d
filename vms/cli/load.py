"""`vms load`: rows of files into a table."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from vms.errors import VmsError

if TYPE_CHECKING:
    from vms.cli.main import Settings
    from vms.manager.load import Load

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command()
@click.argument("table")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=_FILE)
@click.option(
    "--format", "format_", type=click.Choice(["csv", "parquet"]), help="Where the name of the file does not tell it."
)
@click.option(
    "--columns", metavar="NAMES", help="Columns to take, between commas; with --no-header: those of the file."
)
@click.option("--delimiter", default=",", show_default=True, help="CSV: what stands between two values.")
@click.option(
    "--no-header", is_flag=True, help="CSV: the first line is a row; columns are those of the table, in order."
)
@click.option(
    "--null", default="", metavar="TEXT", help="CSV: what stands for NULL, without quotes.  [default: nothing]"
)
@click.option("--skip", type=click.IntRange(min=0), default=0, metavar="ROWS", help="Leave out the first rows.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object at the end, for programs.")
@click.pass_obj
def load(
    settings: Settings,
    table: str,
    files: tuple[Path, ...],
    format_: str | None,
    columns: str | None,
    delimiter: str,
    no_header: bool,
    null: str,
    skip: int,
    as_json: bool,
) -> None:
    """Load rows from CSV or Parquet files (- is standard input, .csv.gz is unpacked).

    Columns are found by name. All files are checked first: one value that does not fit, and nothing is
    written. A row whose key is there already is overwritten, so a load may be repeated; only a table without a key
    keeps every copy. Columns that a file lacks become NULL. Ends when every view has the rows.

    In CSV an empty value is NULL, "" is the empty text, and dates are written 2024-02-29.

    \b
    Examples:
      vms load sales sales.csv
      vms load sales january.parquet february.parquet
      vms load sales sales.txt --format csv --delimiter '|' --no-header --columns id,shop
      zstdcat sales.csv.zst | vms load sales - --null NULL --json
    """
    if len(delimiter) != 1:
        raise click.BadParameter("is one character", param_hint="--delimiter")
    if skip and len(files) > 1:
        raise click.UsageError("--skip goes with one file")

    from vms.manager.load import Load, open_file
    from vms.manager.row_files import CsvForm
    from vms.manager.writes import table_for_writing

    names = [n.strip() for n in columns.split(",")] if columns else None
    form = CsvForm(delimiter, not no_header, null)
    with settings.connect() as db, ExitStack() as temporary:
        declared = table_for_writing(db.catalog, table.lower())
        loads = []
        for path in files:
            name, kind = str(path), format_
            if name == "-":
                path, name, kind = temporary.enter_context(_standard_input()), "standard input", format_ or "csv"
            file = open_file(path, name, kind, form, declared, names)
            loads.append(Load(db, declared, name, file, None if no_header else names))
        for one in loads:
            with _bar(f"checking {one.name}") as progress:
                one.check(progress)
        token = db.session
        for one in loads:
            with _bar(f"writing {one.name}") as progress, _telling_how_far(one):
                token |= one.write(progress, skip)
        with _bar("the views follow"):
            db.wait(token)
    rows = sum(max(one.rows - skip, 0) for one in loads)
    if as_json:
        click.echo(json.dumps({"table": declared.name, "files": [str(f) for f in files], "rows": rows}))
    else:
        click.echo(f"{rows} row{'' if rows == 1 else 's'} written to {declared.name}")


@contextmanager
def _telling_how_far(one: Load) -> Iterator[None]:
    """Says what is written already where the rest is not."""
    try:
        yield
    except (KeyboardInterrupt, VmsError):
        if one.written:
            click.echo(
                f"the first {one.written} rows of {one.name} are written; --skip {one.written} goes on", err=True
            )
        raise


@contextmanager
def _standard_input() -> Iterator[Path]:
    """Standard input as a file, so that it can be read twice."""
    with tempfile.NamedTemporaryFile(prefix="vms-load-") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield Path(file.name)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on the terminal, on standard error; nothing where there is none."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda share: None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda share: progress.update(task, total=1.0, completed=share)
