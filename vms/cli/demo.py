"""`vms demo`: the views of TPC-H under a live change stream, shown on a terminal or as lines of text."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
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
#: Lines of the screen that are no views: the headline, a table's head, and what was said before. A table that does
#: not fit is shown in two halves side by side.
_LINES_AROUND = 6


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
    """The 22 views of TPC-H kept fresh under a live change stream, then compared with DuckDB.

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
            rows = ", ".join(
                f"{f.name} {'-' if f.rows is None else format(f.rows, ',')}" for f in stream.figures.values()
            )
            self.say(f"{_headline(stream)}; rows: {rows}")


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
        figures = list(stream.figures.values())
        fits = len(figures) + _LINES_AROUND <= self._console.height
        half = len(figures) if fits else (len(figures) + 1) // 2
        tables = Table.grid(padding=(0, 4))
        tables.add_row(*(_table(figures[i : i + half]) for i in range(0, len(figures), half)))
        self._live.update(Group(Text(_headline(stream), style="bold"), tables), refresh=True)


def _table(figures: Sequence[ViewFigures]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("view")
    for title in ("rows", "changes/s", "freshness"):
        table.add_column(title, justify="right", min_width=len(title))
    for f in figures:
        if f.rows is None:
            table.add_row(f.name, "-", "-", "-", style="dim")
        else:
            table.add_row(f.name, f"{f.rows:,}", f"{f.changed_per_second:,.0f}", _ms(f.median_freshness))
    return table


def _headline(stream: LiveStream) -> str:
    """How fast rows are written, and how soon a read of the fastest and of the slowest view shows them."""
    rate = stream.written / max(stream.seconds, 0.001)
    fresh = sorted(f.median_freshness for f in stream.figures.values() if f.median_freshness is not None)
    shown = f"; shown after {_ms(fresh[0])} to {_ms(fresh[-1])}" if fresh else ""
    return f"{stream.seconds:4.0f} s  {stream.written:,} changes written, {rate:,.0f}/s{shown}"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.0f} ms"
