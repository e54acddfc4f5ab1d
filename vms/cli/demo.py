"""`vms demo`: the views of TPC-H under a live change stream, shown on a terminal or as lines of text."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from vms.errors import UserError

if TYPE_CHECKING:
    from bench.demo import LiveStream, Screen, ViewFigures

#: Seconds between two progress lines where there is no terminal.
_LINE_EVERY = 5.0


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=30,
    show_default=True,
    help="How long changes are written.",
)
@click.option(
    "--sf",
    type=click.FloatRange(min=0.001),
    default=0.01,
    show_default=True,
    help="TPC-H scale factor; 1 has 6 million line items.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="PATH",
    help="Make the database in this new folder and leave it there.",
)
def demo(seconds: float, sf: float, keep: Path | None) -> None:
    """Views kept fresh under a live change stream, then compared with DuckDB.

    Loads TPC-H tables, writes inserts, updates, partial updates, deletes and re-inserts, creates one view
    over existing rows meanwhile, and compares every view with DuckDB's answer at the end. Ends with exit
    code 1 if a single row differs.

    \b
    Examples:
      vms demo
      vms demo --seconds 10 --keep ./demo-data
      vms --store embedded:./demo-data sql -c "SELECT * FROM q01"
    """
    try:
        from bench.demo import run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("vms"):
            raise
        raise UserError(f"the demo needs the package {error.name}; install it with: pip install 'vms[dev]'") from None
    console = Console(highlight=False, emoji=False, markup=False)
    screen: Screen = _Terminal(console) if console.is_terminal else _Lines()
    with tempfile.TemporaryDirectory(prefix="vms-demo-") as temporary:
        exact = run(keep or Path(temporary) / "database", screen, sf=sf, seconds=seconds)
    if not exact:
        sys.exit(1)


class _Lines:
    """One line for each thing that happens, at once, for logs and pipes."""

    def __init__(self) -> None:
        self._next = _LINE_EVERY

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        self.say(f"{what} ...")
        yield

    def say(self, text: str) -> None:
        click.echo(text)
        sys.stdout.flush()

    @contextmanager
    def live(self) -> Iterator[None]:
        yield

    def show(self, stream: LiveStream) -> None:
        if stream.seconds >= self._next:
            self._next += _LINE_EVERY
            self.say("; ".join([_headline(stream), *map(_line, stream.figures.values())]))


class _Terminal:
    """A spinner for what takes a moment, and a table that moves while the stream runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        with self._console.status(Text(what)):
            yield
        self._done(what)

    def say(self, text: str) -> None:
        if self._live is not None:
            self._done(text)
        else:
            self._console.print(Text(text))

    def _done(self, text: str) -> None:
        self._console.print(Text("✓ ", style="green") + Text(text, style="default"))

    @contextmanager
    def live(self) -> Iterator[None]:
        with Live(console=self._console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def show(self, stream: LiveStream) -> None:
        assert self._live is not None
        self._live.update(Group(Text(_headline(stream), style="bold"), _table(stream)), refresh=True)


def _table(stream: LiveStream) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("view")
    for title in ("rows", "changed rows/s", "freshness", "epoch"):
        table.add_column(title, justify="right", min_width=len(title))
    for f in stream.figures.values():
        if f.rows is None:
            table.add_row(f.name, "-", "-", "-", "-", style="dim")
        else:
            rate = f"{f.changed_per_second:,.0f}"
            table.add_row(f.name, f"{f.rows:,}", rate, _ms(f.median_freshness), str(f.epoch))
    return table


def _line(f: ViewFigures) -> str:
    if f.rows is None:
        return f"{f.name}: not there yet"
    return f"{f.name}: rows {f.rows:,}, fresh in {_ms(f.median_freshness)}"


def _headline(stream: LiveStream) -> str:
    rate = stream.written / max(stream.seconds, 0.001)
    return f"{stream.seconds:4.0f} s  {stream.written:,} changes written, {rate:,.0f}/s"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.0f} ms"
