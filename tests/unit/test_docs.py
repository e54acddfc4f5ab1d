"""The documents tell the truth: their statements run, their output is what comes out, their names exist.

A ```sql or ```python block of README.md and docs/sql.md is run, in order, in one database a document. A ```text
block right after it is what it must print; a line `...` there stands for whatever follows. A block that begins
with `-- refused` must fail, with the text as its message. A ```console block of docs/cli.md has commands after `$ `
and what each prints; `...` in it stands for anything.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import vms
from vms.cli.main import cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_STOP = re.compile(r"^    (?P<path>vms/\S+\.py) +(?P<names>[\w.]+(?:, [\w.]+)*)$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """A block that is run. `output` is None where the document does not show it."""

    line: int
    kind: str
    text: str
    output: str | None


def examples(document: Path) -> list[Example]:
    text = document.read_text(encoding="utf-8")
    blocks = list(_BLOCK.finditer(text))
    found = []
    for block, after in zip(blocks, [*blocks[1:], None]):
        if block["kind"] in ("sql", "python"):
            shown = after is not None and after["kind"] == "text" and not text[block.end() : after.start()].strip()
            line = text.count("\n", 0, block.start()) + 1
            output = after["text"] if after is not None and shown else None
            found.append(Example(line, block["kind"], block["text"], output))
    return found


def outcome(example: Example) -> str:
    """What the block prints; what a refused one is told."""
    if example.kind == "python":
        done = subprocess.run([sys.executable, "-c", example.text], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
    result = CliRunner().invoke(cli, ["sql", "-c", example.text])
    assert result.exit_code == example.text.startswith("-- refused"), result.output
    return result.output.removeprefix("error: ")


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").split("\n")]


@pytest.mark.parametrize("name", ["README.md", "docs/sql.md", "docs/view-tables.md"])
def test_examples_run_and_print_what_is_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = examples(ROOT / name)
    assert found
    for example in found:
        got = lines(outcome(example))
        if example.output is not None:
            wanted = lines(example.output)
            if wanted[-1] == "...":
                wanted.pop()
                got = got[: len(wanted)]
            assert got == wanted, f"{name}, line {example.line}"


def test_commands_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    files = [block["text"] for block in _BLOCK.finditer(text) if block["kind"] == "csv"]
    (tmp_path / "sales.csv").write_text(files[0])
    (tmp_path / "broken.csv").write_text(files[0].replace("4.00", "four"))
    shown = [part for b in _BLOCK.finditer(text) if b["kind"] == "console" for part in b["text"].split("$ ")[1:]]
    assert len(shown) > 8
    for part in shown:
        command, _, wanted = part.partition("\n")
        result = CliRunner().invoke(cli, shlex.split(command)[1:])
        pattern = re.escape("\n".join(lines(wanted))).replace(re.escape("..."), ".*")
        assert re.fullmatch(pattern, "\n".join(lines(result.output))), f"$ {command}\n{result.output}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=[d.name for d in DOCUMENTS])
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in _LINK.findall(_BLOCK.sub("", document.read_text(encoding="utf-8"))):
        path, _, heading = target.partition("#")
        if "://" in path:
            continue
        file = document.parent / path if path else document
        assert file.exists(), target
        if heading:
            assert heading in anchors(file), target


def anchors(document: Path) -> set[str]:
    """The names that GitHub gives to headings."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_document_is_reached_from_the_readme() -> None:
    linked = _LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {f"docs/{d.name}" for d in (ROOT / "docs").glob("*.md")} <= set(linked)


def defined(path: Path) -> set[str]:
    """Classes, functions, and `Class.method` of a file."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef)}
    return names


def test_the_tour_stops_at_places_that_exist() -> None:
    assert vms.__doc__ is not None
    stops = [(path, name) for path, names in _STOP.findall(vms.__doc__) for name in names.split(", ")]
    assert len(stops) > 40 and len({path for path, _ in stops}) == len(set(re.findall(r"vms/\S+\.py", vms.__doc__)))
    assert [stop for stop in stops if stop[1] not in defined(ROOT / stop[0])] == []


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if d.parent.name == "docs"], ids=lambda d: d.name)
def test_files_that_a_document_names_exist(document: Path) -> None:
    named = re.findall(r"`((?:vms|bench|tests|deploy)/[\w/.\-]+)`", document.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_importing_the_package_loads_none_of_the_engine() -> None:
    script = "import sys, vms; print(sorted({'numba', 'datafusion', 'pyarrow', 'rocksdict'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert vms.connect and vms.Database and vms.View
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = vms.nothing
