"""`vms sql` and `vms explain`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vms.errors import SqlError, StoreError, UserError, ViewNotReadable

if TYPE_CHECKING:
    from vms.cli.main import Settings
    from vms.manager.database import Database
    from vms.manager.statements import StatementResult

_HELP = """\
Statements end with a semicolon and may go over several lines.
  \\d         list tables and views
  \\d NAME    columns of a table or view
  \\?         this help
  \\q         leave (Ctrl-D does too)"""


@click.command()
@click.option("-c", "--command", "commands", multiple=True, metavar="SQL", help="Run this text; may be repeated.")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Run this file (- is standard input); may be repeated.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How results are written.",
)
@click.pass_obj
def sql(settings: Settings, commands: tuple[str, ...], files: tuple[Path, ...], format_: str) -> None:
    """Run SQL from a prompt, the command line (-c) or files.

    A SELECT sees, also in the views, everything that was written before it in the same call. Statements are
    applied one by one; the first error ends the run. INSERT of a key that exists overwrites the row.

    With csv and json only results go to standard output, messages go to standard error. csv: each result
    has its header line, an empty line stands between two; NULL is nothing, the empty text is "". json: each
    result is one line with an array of objects; DECIMAL, DATE, TIMESTAMP, NaN and Infinity are texts, so that
    no digit is lost.

    \b
    Examples:
      vms sql
      vms sql -c "SHOW TABLES"
      vms sql -f schema.sql -f rows.sql
      vms sql --format csv -c "SELECT * FROM totals" > totals.csv
      vms sql --format json -c "SELECT * FROM totals" | jq '.[0]'
      vms --store embedded:/var/lib/vms sql -c "DELETE FROM sales WHERE price < 1"
    """
    if commands and files:
        raise click.UsageError("give -c or -f, not both: their order would not be clear")
    texts = [*commands, *(read_script(f) for f in files)]
    interactive = not texts and sys.stdin.isatty()
    if not texts and not interactive:
        texts = [sys.stdin.read()]

    from vms.manager.statements import run

    with settings.connect() as db:
        writer = _Writer(format_)
        if interactive:
            interact(db, writer, _prompt())
        for text in texts:
            for result in run(db, text):
                writer.write(result)


@click.command()
@click.argument("subject", metavar="VIEW|SELECT")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
@click.pass_obj
def explain(settings: Settings, subject: str, as_json: bool) -> None:
    """How a view is maintained: its operations, rounds and state. Takes a view's name, or a SELECT.

    Of a view it also tells which other views share its operations, and how much memory they hold. A SELECT is only
    planned, so this also tells whether it can become a view.

    \b
    Examples:
      vms explain totals
      vms view explain totals
      vms explain "SELECT shop, sum(price) AS total FROM sales GROUP BY shop"
      vms explain totals --json | jq '.operations[] | {operation, memory_bytes, views}'
    """

    subject = subject.strip().rstrip(";")
    with settings.connect() as db:
        click.echo(json.dumps(db.explain_data(subject)) if as_json else db.explain(subject).rstrip("\n"))


class _Writer:
    """Puts the results of statements where they belong."""

    def __init__(self, format_: str) -> None:
        self._format = format_
        self._written = False

    def write(self, result: StatementResult) -> None:
        from vms.cli.output import FORMATS

        if result.table is None:
            click.echo(result.message, err=self._format != "table")
        elif result.kind == "EXPLAIN" and self._format == "table":
            click.echo("\n".join(result.table.column("plan").to_pylist()))
        else:
            if self._written and self._format == "csv":
                click.echo()
            FORMATS[self._format](result.table, sys.stdout)
            click.echo(f"({result.message})", err=self._format != "table")
            self._written = True
        sys.stdout.flush()


def interact(db: Database, writer: _Writer, read: Callable[[], str]) -> None:
    """Read, run, write, until `read` raises EOFError. Errors that the user can mend do not end it."""
    from vms.manager.statements import run

    click.echo(f"vms {_version()}. Statements end with a semicolon; \\? helps, \\q leaves.", err=True)
    while True:
        try:
            text = read().strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            continue
        if text == "\\q":
            return
        try:
            for part in _commands(text):
                for result in run(db, part):
                    writer.write(result)
        except (UserError, ViewNotReadable, StoreError) as error:
            click.echo(f"error: {error}", err=True)


def _commands(text: str) -> list[str]:
    """The scripts that a typed text stands for."""
    if not text.startswith("\\"):
        return [text]
    command, _, name = text.rstrip(";").partition(" ")
    if command == "\\d":
        return [f"DESCRIBE {name}"] if name.strip() else ["SHOW TABLES", "SHOW VIEWS"]
    if command in ("\\?", "\\h"):
        click.echo(_HELP, err=True)
        return []
    raise SqlError(f"there is no command {command}; \\? lists them")


def _prompt() -> Callable[[], str]:
    """Asks on the terminal, with a history that lasts; Enter ends the input once a statement is complete."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.history import FileHistory, History, InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from vms.manager.script import is_complete

    folder = Path(click.get_app_dir("vms"))
    history: History
    try:
        folder.mkdir(parents=True, exist_ok=True)
        history = FileHistory(str(folder / "history"))
    except OSError:
        history = InMemoryHistory()
    session: PromptSession[str] = PromptSession(history=history)
    keys = KeyBindings()

    def ended() -> bool:
        text = session.default_buffer.text
        return text.lstrip().startswith("\\") or is_complete(text)

    @keys.add("enter", filter=Condition(ended))
    def _accept(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return lambda: session.prompt("vms> ", multiline=True, key_bindings=keys, prompt_continuation="...> ")


def read_script(path: Path) -> str:
    """The text of a file that the user named; `-` is standard input."""
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: byte {error.start}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def _version() -> str:
    from importlib.metadata import version

    return version("vms")
