"""`vms bench`: measurements that anyone can repeat."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from vms.errors import UserError

if TYPE_CHECKING:
    from vms.cli.main import Settings

_DEFAULT_SEED = 1


class _ListOf(click.ParamType):
    """Values between commas, each read by `convert_one`."""

    def __init__(self, name: str, convert_one: Callable[[str], Any]) -> None:
        self.name = name
        self._convert_one = convert_one

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        if isinstance(value, list):
            return value
        try:
            found = [self._convert_one(part.strip()) for part in value.split(",") if part.strip()]
        except ValueError:
            found = []
        if not found:
            self.fail(f"{value!r} is not {self.name} between commas", param, ctx)
        return found


@click.group()
def bench() -> None:
    """Measure how fast views are maintained."""


@bench.command()
@click.option(
    "--query", "queries", type=_ListOf("query names", str.lower), default="q01,q03,q06", show_default=True,
    metavar="NAMES", help="TPC-H queries, between commas.",
)  # fmt: skip
@click.option(
    "--batch", "batches", type=_ListOf("whole numbers", int), default="1000,10000", show_default=True,
    metavar="SIZES", help="Changes in one batch; several sizes between commas.",
)  # fmt: skip
@click.option(
    "--sf",
    type=click.FloatRange(min=0, min_open=True),
    default=0.1,
    show_default=True,
    help="TPC-H scale factor.",
)
@click.option(
    "--delete-share", type=click.FloatRange(0, 1, max_open=True), default=0.09, show_default=True,
    help="Deletes among all changes.",
)  # fmt: skip
@click.option("--seed", type=int, default=_DEFAULT_SEED, show_default=True, help="The same seed, the same changes.")
@click.option(
    "--update-share", type=click.FloatRange(0, 1, max_open=True), default=0.0, show_default=True,
    help="Updates of whole rows among all changes.",
)  # fmt: skip
@click.option(
    "--zipf", type=click.FloatRange(min=0), default=0.0, show_default=True,
    help="How much updates and deletes keep to a few rows; 0 is evenly.",
)  # fmt: skip
@click.option("--breakdown", is_flag=True, help="Also which share of the time each operation takes.")
@click.option("--peers", is_flag=True, help="Also DuckDB over the same changes, evaluating the query anew.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as each cell is done.")
def engine(
    queries: list[str],
    batches: list[int],
    sf: float,
    delete_share: float,
    seed: int,
    update_share: float,
    zipf: float,
    breakdown: bool,
    peers: bool,
    as_json: bool,
) -> None:
    """The engine alone, on one core: decoded changes in, changed view rows out.

    Each cell is one query at one batch size. `limit` is a program written by hand for that query, run on the
    same changes; `exact` tells that both results equal DuckDB's.

    \b
    Examples:
      vms bench engine
      vms bench engine --query q01 --batch 100,1000,10000 --sf 0.01
      vms bench engine --delete-share 0 --json > cells.jsonl
      vms bench engine --query q03 --breakdown
    """
    try:
        from bench.engine import run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("vms"):
            raise
        raise UserError(
            f"the benchmark needs the package {error.name}; install it with: pip install 'vms[dev]'"
        ) from None
    cells = run(
        queries, batches, sf, delete_share, seed, update_share=update_share, zipf=zipf, breakdown=breakdown, peers=peers
    )
    if as_json:
        for cell in cells:
            click.echo(json.dumps(cell))
    else:
        _as_table(cells)


@bench.command()
@click.option(
    "--rate", type=click.IntRange(min=1), default=500, show_default=True, help="Single puts a second, for freshness."
)
@click.option("--seconds", type=click.FloatRange(min=1), default=20, show_default=True, help="How long they go on.")
@click.option("--rows", type=click.IntRange(min=1), default=200_000, show_default=True, help="Rows of the load.")
@click.pass_obj
def hbase(settings: Settings, rate: int, seconds: float, rows: int) -> None:
    """How fresh views over HBase are, and how many rows a second they follow; one JSON object a line.

    A VMS of its own is attached to the HBase of --store for as long as it takes, with the View Manager in this
    process and the clients in another one. `pNN_ms`: from the put to the commit from which every read holds it.
    `hbase_alone`: what a client writes into a table that nobody follows.

    \b
    Examples:
      export VMS_STORE=hbase:localhost:9090
      vms bench hbase
      vms bench hbase --rate 1000 --rows 1000000
    """
    from bench.hbase import run

    for result in run(settings.store, rate, seconds, rows):
        click.echo(json.dumps(result))


@bench.command()
@click.option("--rows", type=click.IntRange(min=100), default=100_000, show_default=True, help="Rows of ten cells.")
@click.option("--repeats", type=click.IntRange(min=1), default=9, show_default=True, help="The best one counts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def decode(rows: int, repeats: int, as_json: bool) -> None:
    """Cells of HBase's write-ahead log to columns: the kernel beside plain Python, per second of CPU time.

    `fields`: where everything is in a cell block. `rows`: on to typed columns with their row keys.

    \b
    Examples:
      vms bench decode
      vms bench decode --rows 20000 --json
    """
    from bench.decode import run

    cells = run(rows, repeats)
    if as_json:
        for cell in cells:
            click.echo(json.dumps(cell))
        return
    import pyarrow as pa

    from vms.cli.output import write_table

    shown = [{name: _shown(value) for name, value in cell.items()} for cell in cells]
    write_table(pa.Table.from_pylist(shown), sys.stdout)


@bench.command()
@click.option("--changes", type=click.IntRange(min=1), default=100_000, show_default=True, help="Rows written.")
@click.option(
    "--members", type=_ListOf("whole numbers", int), default="1,2,4", show_default=True, metavar="COUNTS",
    help="How many members; several counts between commas.",
)  # fmt: skip
@click.option("--seed", default=_DEFAULT_SEED, show_default=True, help="Of the rows.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, as soon as it is known.")
def ring(changes: int, members: list[int], seed: int, as_json: bool) -> None:
    """What several managers cost: the log, the exchange between members, and a crash.

    Managers in one process, with a real ZooKeeper (Java 17 is needed) and gRPC over the loopback between them, over one
    embedded store. `cpu_s_per_million`: processor seconds of all managers and the store for a million changes.

    \b
    Examples:
      vms bench ring
      vms bench ring --changes 1000000 --members 1,2,4 --json
    """
    from bench.ring import measure
    from vms.cli.output import write_records

    found = []
    for result in measure(changes, members, seed):
        if as_json:
            click.echo(json.dumps(result))
        found.append(result)
    if not as_json:
        write_records([r for r in found if r["bench"] == "ring"], "nothing", sys.stdout)
        for recovery in (r for r in found if r["bench"] == "recovery"):
            click.echo(f"\na manager died: the next commit after {recovery['recovery_s']} s")


def _as_table(cells: Iterator[dict[str, Any]]) -> None:
    import pyarrow as pa

    from vms.cli.output import write_table

    done: list[dict[str, Any]] = []
    for cell in cells:
        if "peer" in cell:
            done[-1][cell["peer"]] = cell["tuples_per_cpu_s"]
            continue
        click.echo(f"{cell['query']} at {cell['batch']} done", err=True)
        for operation, share in cell.pop("breakdown", {}).items():
            click.echo(f"{share:7.1%}  {operation}", err=True)
        done.append({k: _shown(v) for k, v in cell.items()})
    write_table(pa.Table.from_pylist(done), sys.stdout)


def _shown(value: Any) -> Any:
    """Four digits are what a measurement is good for."""
    return float(f"{value:.4g}") if isinstance(value, float) else value
