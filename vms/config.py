"""Configuration of a View Manager: vms.toml, then the environment, then flags; the later one wins.

[manager]                     # vms.toml
store = "hbase:localhost:9090"
members = 2

VMS_MANAGER_MEMBERS=2         # the environment
vms manager run --members 2   # flags
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from vms.errors import UserError

_PREFIX = "VMS_MANAGER_"
LOG_FORMATS = ("text", "json")


@dataclass(frozen=True)
class ManagerConfig:
    """What `vms manager run` goes by.

    `id`: names this manager among the others (default: made from the machine's name). `home`: a folder of its own.
    `log`: `off`, `local` (in `home`), or a folder that other managers reach too, as a path or file:// URL. `listen`:
    HOST:PORT of links and control; `wal_listen`: HOST or HOST:PORT where region servers deliver; `metrics`: HOST:PORT
    of /metrics, or nothing. `members`: how many it means to host. `tls`: the folder of its certificates.
    """

    store: str = "hbase:localhost:9090"
    id: str = ""
    home: str = ""
    log: str = "local"
    listen: str = "127.0.0.1:0"
    wal_listen: str = "127.0.0.1"
    metrics: str = ""
    members: int = 1
    epoch_interval: float = 0.1
    rehost_timeout: float = 120.0
    session_timeout: float = 10.0
    tls: str = ""
    log_format: str = "text"

    def __post_init__(self) -> None:
        if self.members < 1:
            raise UserError(f"members = {self.members}: a manager hosts at least one")
        for name in ("epoch_interval", "rehost_timeout", "session_timeout"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} = {getattr(self, name)} is no time; it is more than 0 seconds")
        if self.log_format not in LOG_FORMATS:
            raise UserError(f"log_format = {self.log_format!r} is not known; it is {' or '.join(LOG_FORMATS)}")
        for name in ("listen", "metrics"):
            place = getattr(self, name)
            if place and not place.rpartition(":")[2].isdigit():
                raise UserError(f"{name} = {place!r} is no place; write HOST:PORT, as in 127.0.0.1:7400")


def load(
    file: Path | None = None, flags: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None
) -> ManagerConfig:
    """The configuration; `file` None: ./vms.toml if there is one. Flags that are None are not given."""
    environment = os.environ if env is None else env
    found: dict[str, Any] = {}
    if file is not None or Path("vms.toml").exists():
        found |= _read(file or Path("vms.toml"))
    found |= {k[len(_PREFIX) :].lower(): v for k, v in environment.items() if k.startswith(_PREFIX)}
    found |= {k: v for k, v in (flags or {}).items() if v is not None}
    kinds = {field.name: type(field.default) for field in fields(ManagerConfig)}
    unknown = sorted(found.keys() - kinds.keys())
    if unknown:
        raise UserError(f"there is no setting {', '.join(unknown)}; there are {', '.join(kinds)}")
    return replace(ManagerConfig(), **{name: _typed(name, value, kinds[name]) for name, value in found.items()})


def _read(file: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise UserError(f"there is no file {file}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    unknown = sorted(content.keys() - {"manager"})
    if unknown or not isinstance(content.get("manager", {}), dict):
        raise UserError(f"{file} has one section, [manager]; found {', '.join(unknown) or 'another kind of value'}")
    return content.get("manager", {})


def _typed(name: str, value: Any, kind: type) -> Any:
    try:
        if isinstance(value, bool) or (kind is str and not isinstance(value, str)):
            raise ValueError
        return kind(value)
    except (TypeError, ValueError):
        words = {str: "a text", int: "a whole number", float: "a number"}
        raise UserError(f"{name} = {value!r} is not {words[kind]}") from None
