"""The `vms` command: its global options, its exit codes, and how errors reach the user.

| exit code | meaning |
|---|---|
| 0 | fine |
| 1 | the user can mend it: one message on standard error, beginning with "error: " |
| 2 | our mistake: a message that says so, and the trace in a file |
| 130 | interrupted from the keyboard |
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import click

from vms.cli.audit import audit
from vms.cli.bench import bench
from vms.cli.bulk import bulk
from vms.cli.demo import demo
from vms.cli.hbase import hbase
from vms.cli.load import load
from vms.cli.manager import certs, manager, trace
from vms.cli.sql import explain, sql
from vms.cli.status import status
from vms.cli.table import table
from vms.cli.view import view
from vms.errors import StoreError, UserError, ViewNotReadable

if TYPE_CHECKING:
    from vms.manager.database import Database

DEFAULT_STORE = "embedded:./vms-data"


@dataclass
class Settings:
    """The global options; `ctx.obj` of every command."""

    store: str = DEFAULT_STORE
    debug: bool = False

    def connect(self) -> Database:
        """The database; on HBase with a View Manager in this process, unless some run already."""
        import vms

        if not self.store.startswith("hbase:"):
            return vms.connect(self.store)
        from vms.manager.hbase_client import managers_run

        return vms.connect(self.store, manage=not managers_run(self.store))


class _Commands(click.Group):
    """A group whose errors become messages and exit codes, however it is called."""

    def main(self, args: Sequence[str] | None = None, *names: Any, **extra: Any) -> NoReturn:  # type: ignore[override]
        settings = Settings()
        extra |= {"standalone_mode": False, "obj": settings}
        try:
            code = super().main(args, *names, **extra)
            sys.stdout.flush()
        except (KeyboardInterrupt, click.Abort):
            sys.exit(130)
        except (BrokenPipeError, _ReaderLeft):
            # the reader has seen enough; what Python still holds for it must not fail once more at exit
            _discard_stdout()
            sys.exit(0)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(0)
        except click.ClickException as error:
            _say(_with_help(error))
            sys.exit(1)
        except (UserError, ViewNotReadable, StoreError) as error:
            if settings.debug:
                traceback.print_exc()
            _say(str(error))
            sys.exit(1)
        except Exception as error:
            _say(_bug(error, settings.debug))
            sys.exit(2)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderLeft from None  # by its own name click would end the process with 1


class _ReaderLeft(Exception):
    """Nobody reads standard output any more."""


def _say(message: str) -> None:
    click.echo(f"error: {message}", err=True)


def _with_help(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"\nsee: {context.command_path} --help" if context else ""
    return error.format_message() + hint


def _bug(error: Exception, debug: bool) -> str:
    """What to tell about an error that should not be; the trace goes where it is asked for."""
    if debug:
        traceback.print_exc()
        where = "the trace stands above"
    else:
        with tempfile.NamedTemporaryFile("w", prefix="vms-error-", suffix=".txt", delete=False) as file:
            traceback.print_exc(file=file)
        where = f"please report it with {file.name} (or run again with --debug)"
    return f"this is a bug in VMS: {type(error).__name__}: {error}; {where}"


def _discard_stdout() -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--store",
    envvar="VMS_STORE",
    default=DEFAULT_STORE,
    show_default=True,
    metavar="KIND:PLACE",
    help="Where the tables and views are kept. embedded:PATH is a folder on this machine, hbase:HOST:PORT "
    "the Thrift gateway of an HBase.",
)
@click.option("--debug", is_flag=True, envvar="VMS_DEBUG", help="Show the trace of an error.")
@click.version_option(package_name="vms", message="vms %(version)s")
@click.pass_obj
def cli(settings: Settings, store: str, debug: bool) -> None:
    """Always-fresh SQL views.

    Declare tables, declare views over them in SQL, write rows: every view follows within a fraction of a
    second, and is never wrong.

    \b
    A first look:
      vms sql -c "CREATE TABLE sales (id BIGINT PRIMARY KEY, shop VARCHAR, price DECIMAL(9, 2))"
      vms sql -c "CREATE MATERIALIZED VIEW totals AS
                  SELECT shop, sum(price) AS total FROM sales GROUP BY shop"
      vms sql -c "INSERT INTO sales VALUES (1, 'north', 10.50), (2, 'north', 4.00);
                  SELECT * FROM totals"
      vms explain totals
      vms status

    \b
    Exit codes: 0 fine; 1 something you can mend; 2 a bug in VMS; 130 interrupted.
    """
    settings.store, settings.debug = store, debug


for _command in (sql, table, view, load, bulk, audit, explain, status, trace, manager, certs, bench, demo, hbase):
    cli.add_command(_command)


def main() -> NoReturn:
    """The entry point of the `vms` program."""
    cli.main(prog_name="vms")
