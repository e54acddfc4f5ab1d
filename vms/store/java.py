"""Java, the jars of HBase, and our own small one: built by Maven once and kept in a cache of this user.

The cache is `$VMS_CACHE`, or `vms` in `$XDG_CACHE_HOME` (by default `~/.cache`). A folder in it is named after
the content of what it was built from: another version of HBase is another folder; one that is ready is complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vms.errors import UserError

#: The folder deploy/ of the project.
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"

Say = Callable[[str], None]


def hbase_jars(say: Say) -> Path:
    """The folder with every jar that a process of the cluster needs."""
    pom = deployed("hbase/pom.xml")
    goals = "dependency:copy-dependencies", "-DoutputDirectory={folder}/lib"
    return _built(pom, [pom], say, "fetching HBase", *goals) / "lib"


def plugin_jar(say: Say) -> Path:
    """Our own jar (deploy/hbase-plugin)."""
    pom = deployed("hbase-plugin/pom.xml")
    inputs = [pom, *sorted(pom.parent.glob("src/**/*.java"))]
    folder = _built(pom, inputs, say, "building the plug-in", "package", "-Dvms.build={folder}")
    return folder / "vms-hbase-plugin.jar"


def java() -> str:
    """The Java program; installed with Maven through apt-get where they are missing and that is possible."""
    script = deployed("install-java.sh")
    done = subprocess.run(["bash", str(script)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise UserError(done.stderr.strip() or "Java 17 and Maven are needed")
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home and Path(home, "bin", "java").exists() else "java"


def deployed(name: str) -> Path:
    """A file of deploy/; it is part of the source tree, not of an installed package."""
    path = DEPLOY / name
    if not path.exists():
        raise UserError(f"{name} is not there: run VMS from its source folder (the one with deploy/) for this command")
    return path


def _built(pom: Path, inputs: list[Path], say: Say, doing: str, *goals: str) -> Path:
    """Run Maven into a cache folder named after `inputs`, unless somebody has; returns the folder."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()[:16]
    folder = _cache() / f"{pom.parent.name}-{digest}"
    ready = folder / "ready"
    if ready.exists():
        return folder
    with locked(folder.with_suffix(".lock")):
        if ready.exists():
            return folder
        java()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        say(f"{doing} through Maven (a minute, once)")
        _maven(["-f", str(pom), *(goal.format(folder=folder) for goal in goals)], say)
        ready.touch()
    return folder


def _maven(arguments: list[str], say: Say) -> None:
    """Run Maven; every fiftieth download is told, and the end of its output is the error if it fails."""
    process = subprocess.Popen(
        ["mvn", "-B", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert process.stdout is not None
    problems: list[str] = []
    fetched = 0
    for line in process.stdout:
        if line.startswith("[ERROR]"):
            problems.append(line.rstrip())
        fetched += "Downloaded from" in line
        if "Downloaded from" in line and fetched % 50 == 0:
            say(f"  {fetched} files")
    if process.wait():
        raise UserError("Maven failed:\n" + "\n".join(problems[:12] or ["it gave no reason"]))


def _cache() -> Path:
    given = os.environ.get("VMS_CACHE")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vms"
    base.mkdir(parents=True, exist_ok=True)
    return base.resolve()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file: one process of this machine at a time. The system lets go when the holder dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
