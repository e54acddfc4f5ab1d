"""TPC-H rows, made by `tpchgen-cli` and kept as Parquet files in a folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.tpch.schema import TABLES, arrow_schema
from vms.errors import StoreError, UnknownName, UserError

_TOOL = "tpchgen-cli"


def tables(sf: float, folder: Path | None = None, names: Iterable[str] = tuple(TABLES)) -> dict[str, pa.Table]:
    """The tables at scale factor `sf`, with exactly the types declared in `bench.tpch.schema`.

    Rows are a function of `sf` alone. Files that are missing in `folder` (default: data/tpch/sf... under the
    current folder) are generated; each appears whole or not at all, so that several processes may share it.
    """
    names = list(names)
    for name in names:
        if name not in TABLES:
            raise UnknownName("TPC-H table", name, TABLES)
    if not sf > 0:
        raise UserError(f"the scale factor must be above 0, not {sf:g}")
    folder = folder or Path("data") / "tpch" / f"sf{sf:g}"
    missing = [name for name in names if not (folder / f"{name}.parquet").exists()]
    if missing:
        _generate(sf, folder, missing)
    return {name: _read(folder / f"{name}.parquet", name) for name in names}


def _read(path: Path, name: str) -> pa.Table:
    schema = arrow_schema(TABLES[name])
    try:
        rows = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as e:
        raise StoreError(f"{path} is no readable Parquet file ({e}); remove it to generate it anew") from e
    return _first_of_each_key(rows.select(schema.names).cast(schema), TABLES[name].key).combine_chunks()


def _first_of_each_key(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """With less than a hundred suppliers, the generator gives a part the same supplier twice."""
    numbered = rows.select(list(key)).append_column("number", pa.array(range(rows.num_rows), pa.int64()))
    first = numbered.group_by(list(key)).aggregate([("number", "min")])["number_min"]
    return rows if len(first) == rows.num_rows else rows.take(first.combine_chunks().sort())


def _generate(sf: float, folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        command = [_tool(), "parquet", f"--scale-factor={sf:g}", f"--tables={','.join(names)}"]
        done = subprocess.run([*command, f"--output-dir={work}"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UserError(
                f"`{' '.join(command)}` failed with exit code {done.returncode}: {done.stderr.strip()}"
                f" (version 3 or later of {_TOOL} is needed)"
            )
        for name in names:
            os.replace(Path(work) / f"{name}.parquet", folder / f"{name}.parquet")


def _tool() -> str:
    """The generator beside this interpreter, where pip puts it, or else on the PATH."""
    found = shutil.which(_TOOL, path=str(Path(sys.executable).parent)) or shutil.which(_TOOL)
    if found is None:
        raise UserError(f"{_TOOL} was not found beside {sys.executable} or on the PATH: pip install {_TOOL}")
    return found
