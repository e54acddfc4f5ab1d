"""`vms bulk`: views built by Spark, over tables that hold many rows already."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from vms.cli.sql import read_script
from vms.errors import UserError

if TYPE_CHECKING:
    from vms.bulk.build import Build
    from vms.cli.main import Settings

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option("--master", metavar="URL", help="The Spark master.  [default: spark-submit's, or local[*]]"),
            click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
            click.option("--json", "as_json", is_flag=True, help="One JSON object at the end, for programs."),
        )
    ):
        command = option(command)
    return command


@click.group()
def bulk() -> None:
    """Build views over large tables with Spark, while clients go on writing.

    A view that `vms view create` makes is built by the View Manager itself. Over many rows it is faster on Spark: the
    same operations run over a snapshot on all cores, and the View Manager takes over what they hold, without losing or
    repeating a change. Until then the view cannot be read.

    Needs Spark in the Python of VMS and of Spark's workers: pip install 'vms[bulk]'.

    \b
    Examples:
      vms bulk build totals "SELECT shop, sum(price) AS total FROM sales GROUP BY shop"
      vms bulk resume totals
      vms bulk list
    """


@bulk.command()
@click.argument("name")
@click.argument("select", required=False)
@click.option("-f", "--file", type=_FILE, metavar="FILE", help="Read the SELECT from this file (- is standard input).")
@click.option("--parts", type=click.IntRange(1, 1024), default=8, show_default=True, help="Tasks of each later stage.")
@click.option("--range-rows", type=click.IntRange(1), default=500_000, show_default=True, help="Rows read by one task.")
@click.option("--wave", type=click.IntRange(1), default=8, show_default=True, help="Tasks that read at a time.")
@spark_options
@click.pass_obj
def build(
    settings: Settings,
    name: str,
    select: str | None,
    file: Path | None,
    parts: int,
    range_rows: int,
    wave: int,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Declare a view and let Spark build it.

    If it is cut off, at whatever point, `vms bulk resume` goes on from there: reading wave by wave, what was read is
    not read again. `vms view drop` gives it up.

    \b
    Examples:
      vms bulk build totals --file totals.sql --master 'local[4]'
      vms bulk build totals --file totals.sql --parts 64 --conf spark.executor.memory=4g
    """
    if (select is None) == (file is None):
        raise click.UsageError("give the SELECT as an argument, or a file with --file")
    spark_conf = checked_conf(conf)

    from vms.bulk.build import Build, Sizes
    from vms.cli.view import declared_name, select_of

    declared, query = declared_name(name), select_of(read_script(file) if file is not None else select or "")
    with settings.connect() as db:
        with query.located():
            registered = Build.register(db, declared, query.sql, Sizes(parts, range_rows, wave))
        _run(registered, declared, master, spark_conf, as_json)


@bulk.command()
@click.argument("name")
@spark_options
@click.pass_obj
def resume(settings: Settings, name: str, master: str | None, conf: tuple[str, ...], as_json: bool) -> None:
    """Go on with a build that was cut off.

    \b
    Examples:
      vms bulk resume totals
    """
    spark_conf = checked_conf(conf)

    from vms.bulk.build import Build

    with settings.connect() as db:
        _run(Build.resume(db, name.lower()), name.lower(), master, spark_conf, as_json)


@bulk.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> None:
    """The views that are being built.

    \b
    Examples:
      vms bulk list --json | jq -r '.[]'
    """
    with settings.connect() as db:
        found = sorted(db.catalog.builds)
    click.echo(json.dumps(found) if as_json else "\n".join(found) or "no view is being built")


def checked_conf(conf: tuple[str, ...]) -> dict[str, str]:
    """Settings of Spark; refused before anything begins where Spark is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise UserError("Spark is not installed in this Python: pip install 'vms[bulk]'")
    for setting in conf:
        if "=" not in setting:
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--conf")
    return {key: value for key, _, value in (setting.partition("=") for setting in conf)}


def _run(registered: Build, name: str, master: str | None, conf: dict[str, str], as_json: bool) -> None:
    from vms.bulk.session import spark_session

    begin = time.monotonic()
    try:
        with _bar(name) as progress:
            progress("starting Spark", 0.0, 0)
            rows = registered.run(spark_session(master, conf), progress)
    except BaseException:
        click.echo(f"view {name} is not built yet; vms bulk resume {name} goes on from here", err=True)
        raise
    seconds = time.monotonic() - begin
    if as_json:
        click.echo(json.dumps({"view": name, "rows_read": rows, "seconds": round(seconds, 1)}))
    else:
        click.echo(f"view {name} built from {rows} rows in {seconds:.0f} s, and followed from now on")


@contextmanager
def _bar(name: str) -> Iterator[Callable[[str, float, int], None]]:
    """A progress bar on the terminal, on standard error: phase, share, rows, rows a second, time left."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda phase, share, rows: None
        return
    text = TextColumn("{task.description}", markup=False)
    rate = TextColumn("{task.fields[rows]} rows, {task.fields[rate]}/s", markup=False)
    with Progress(
        text, BarColumn(), TaskProgressColumn(), rate, TimeRemainingColumn(), console=console, transient=True
    ) as bar:
        task, begin = bar.add_task(name, total=1.0, rows=0, rate=0), time.monotonic()

        def told(phase: str, share: float, rows: int) -> None:
            rate = int(rows / max(time.monotonic() - begin, 0.001))
            bar.update(task, description=f"{name}: {phase}", completed=share, rows=rows, rate=rate)

        yield told
