"""`vms manager`: View Managers as processes of their own. `vms certs`: certificates for trials. `vms trace`."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vms.errors import UserError

if TYPE_CHECKING:
    from vms.cli.main import Settings
    from vms.manager.remote import RemoteRuntime


@click.group()
def manager() -> None:
    """View Managers: they follow the tables and keep the views.

    \b
    Examples:
      export VMS_STORE=hbase:localhost:9090
      vms manager run
      vms manager run --home /var/lib/vms/2 --log /mnt/shared/vms-log
      vms manager list
      vms manager drain host-1a2b3c
    """


@manager.command()
@click.option("--config", "file", type=click.Path(path_type=Path), help="A vms.toml; by default that of this folder.")
@click.option("--id", "id_", help="The name of this manager among the others.")
@click.option("--home", help="A folder of its own.")
@click.option("--log", metavar="off|local|FOLDER", help="Where the transaction log is.")
@click.option("--listen", metavar="HOST:PORT", help="Where links and control listen.")
@click.option("--wal-listen", metavar="HOST[:PORT]", help="Where region servers deliver.")
@click.option("--metrics", metavar="HOST:PORT", help="Where /metrics listens.")
@click.option("--members", type=int, help="How many members it means to host.")
@click.option("--epoch-interval", type=float, metavar="SECONDS", help="Between epochs while changes come.")
@click.option("--rehost-timeout", type=float, metavar="SECONDS", help="How long a log is waited for.")
@click.option("--session-timeout", type=float, metavar="SECONDS", help="After which a silent manager is dead.")
@click.option("--tls", metavar="FOLDER", help="Certificates for links and control.")
@click.option("--log-format", metavar="text|json", help="How this process writes what it does.")
@click.pass_obj
def run(settings: Settings, file: Path | None, id_: str | None, **flags: Any) -> None:
    """Run one View Manager until it is told to stop (TERM or Ctrl-C), or drained.

    Settings come from vms.toml, then from VMS_MANAGER_..., then from the options here.
    """
    from vms.cli.main import DEFAULT_STORE
    from vms.config import load
    from vms.manager.daemon import Daemon, notify

    store = settings.store if settings.store != DEFAULT_STORE else None
    config = load(file, {"store": store, "id": id_, **flags})
    if not config.store.startswith("hbase:"):
        raise UserError("a manager of its own needs a store that others reach: --store hbase:HOST:PORT")
    _log_to_stderr(config.log_format)
    daemon = Daemon(config, logging.getLogger("vms").info)
    stopped = daemon.ended
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    daemon.start()
    try:
        notify("READY=1")
        stopped.wait()
        notify("STOPPING=1")
        failure = daemon.failure
    finally:
        daemon.stop()
    if failure is not None:
        raise failure


@manager.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="One JSON array, for programs.")
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> None:
    """The View Managers that run, and what each hosts."""
    from vms.cli.output import write_records
    from vms.plan.describe import describe_size

    with _connected(settings) as (remote, _):
        found = remote.status()
    if as_json:
        click.echo(json.dumps(found))
        return
    records = [
        {
            "manager": m["id"],
            "address": m["address"],
            "leads": "yes" if m.get("leads") else "",
            "members": ", ".join(m["members"]) or "none",
            "slots": sum(member["slots"] for member in m["members"].values()),
            "backlog": m.get("backlog", {}).get("entries", "?"),
            "memory": describe_size(sum(m.get("memory_bytes", {}).values())),
        }
        for m in found
    ]
    write_records(records, "no View Manager runs; start one with vms manager run", sys.stdout)
    for m in found:
        for text in [*m.get("warnings", ()), *([m["failure"]] if m.get("failure") else [])]:
            click.echo(f"\nwarning: {m['id']}: {text}")


@manager.command()
@click.argument("id_", metavar="ID")
@click.pass_obj
def drain(settings: Settings, id_: str) -> None:
    """Give the members of a manager to the others; then it ends. Views stay exact, and reads go on."""
    with _connected(settings) as (remote, _):
        remote.drain(id_)
    click.echo(f"{id_} hosts nothing any more")


@click.command()
@click.argument("epoch", type=int, required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON array, for programs.")
@click.pass_obj
def trace(settings: Settings, epoch: int | None, as_json: bool) -> None:
    """Where the time of an epoch went, at each manager; by default of the newest committed one.

    \b
    Examples:
      export VMS_STORE=hbase:localhost:9090
      vms trace
      vms trace 1763498735123 --json
    """
    from vms.cli.output import write_records

    with _connected(settings) as (remote, _):
        found = remote.trace(epoch)
    if as_json:
        click.echo(json.dumps(found))
        return
    names = list(dict.fromkeys(name for one in found for name in one["seconds"]))
    records = [
        {
            "manager": one["manager"],
            "epoch": one["epoch"],
            "rows": one["rows"],
            **{f"{name} ms": round(1000 * one["seconds"].get(name, 0.0), 1) for name in names},
            "whole ms": round(1000 * (one["committed"] - one["issued"]), 1)
            if one.keys() >= {"committed", "issued"}
            else None,
        }
        for one in found
    ]
    write_records(records, "no manager remembers this epoch", sys.stdout)


@click.group()
def certs() -> None:
    """Certificates of managers and clients."""


@certs.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--host", "hosts", multiple=True, default=("127.0.0.1", "localhost"), show_default=True)
def dev(folder: Path, hosts: tuple[str, ...]) -> None:
    """Make an authority and one certificate in FOLDER, for trials: valid for 30 days.

    \b
    Examples:
      vms certs dev ./tls --host 127.0.0.1 --host localhost
    """
    from vms.ring.credentials import make_trial_certificates

    make_trial_certificates(folder, hosts)
    click.echo(f"{folder} has ca.crt, node.crt and node.key; give it as --tls {folder}")


class _connected:
    """The remote side of a database on HBase."""

    def __init__(self, settings: Settings) -> None:
        if not settings.store.startswith("hbase:"):
            raise UserError("an embedded database is its own manager; this is for --store hbase:HOST:PORT")
        self._store = settings.store

    def __enter__(self) -> tuple[RemoteRuntime, Any]:
        import vms

        self._db = vms.connect(self._store)
        assert self._db.remote is not None
        return self._db.remote, self._db

    def __exit__(self, *_: object) -> None:
        self._db.close()


class _JsonLines(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        found = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["trace"] = self.formatException(record.exc_info)
        return json.dumps(found)


def _log_to_stderr(kind: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler.setFormatter(_JsonLines() if kind == "json" else plain)
    logger = logging.getLogger("vms")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    threading.current_thread().name = "main"
