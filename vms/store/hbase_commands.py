"""What an administrator asks of HBase and the Thrift gateway cannot do: as requests, and as lines of the HBase shell.

A `Command` is done by the Java helper (hbase_admin.py), or printed for operators who prefer to run it themselves.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vms.store.base import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT, Cell, Family, Mutation

_KINDS = {
    PUT: "put",
    DELETE_ROW: "delete_family",
    DELETE_COLUMN: "delete_column",
    DELETE_VERSION: "delete_version",
}


class Command(NamedTuple):
    """`request` for the Java helper; `shell`: the same in the HBase shell, one command a line."""

    request: dict[str, Any]
    shell: str


# --- tables ----------------------------------------------------------------------------------------------------


def family_settings(family: Family, *, replicated: bool = False) -> dict[str, str]:
    """The attributes of a family as HBase names them. Deleted cells stay as long as the TTL; without one, for good."""
    settings = {"VERSIONS": str(family.versions), "BLOOMFILTER": "ROW"}
    if family.min_versions:
        settings["MIN_VERSIONS"] = str(family.min_versions)
    if family.ttl_ms is not None:
        settings["TTL"] = str(max(1, family.ttl_ms // 1000))
    if family.keep_deleted:
        settings["KEEP_DELETED_CELLS"] = "TTL" if family.ttl_ms is not None else "TRUE"
    if replicated:
        settings["REPLICATION_SCOPE"] = "1"
    return settings


def create_table(
    table: str, families: Mapping[str, Mapping[str, str]], splits: Sequence[bytes] = (), *, namespace: bool = True
) -> Command:
    """Create it, and its namespace where that is missing."""
    request = {
        "do": "table.create",
        "table": table,
        "families": {name: dict(settings) for name, settings in families.items()},
        "splits": [_base64(split) for split in splits],
    }
    parts = [_text(table), *(_family(name, settings) for name, settings in families.items())]
    if splits:
        parts.append(f"SPLITS => [{', '.join(map(_bytes, splits))}]")
    first = f"create_namespace {_text(table.split(':')[0])}\n" if namespace and ":" in table else ""
    return Command(request, f"{first}create {', '.join(parts)}")


def drop_table(table: str) -> Command:
    return Command({"do": "table.drop", "table": table}, f"disable {_text(table)}\ndrop {_text(table)}")


def describe_table(table: str) -> Command:
    """Answers family -> attribute -> value."""
    return Command({"do": "table.describe", "table": table}, f"describe {_text(table)}")


def alter_family(table: str, family: str, settings: Mapping[str, str]) -> Command:
    """Change these attributes of a family; the others stay."""
    request = {"do": "table.alter", "table": table, "family": family, "settings": dict(settings)}
    return Command(request, f"alter {_text(table)}, {_family(family, settings)}")


def replicate(table: str, families: Sequence[str], *, on: bool) -> Command:
    """Set the replication scope of every family: whether their changes are shipped to peers."""
    scope = "1" if on else "0"
    request = {"do": "table.alter", "table": table, "settings": {"REPLICATION_SCOPE": scope}}
    settings = {"REPLICATION_SCOPE": scope}
    return Command(request, f"alter {', '.join([_text(table), *(_family(f, settings) for f in families)])}")


#: The coprocessor of deploy/hbase-plugin, and the priority of those that users load.
_IMAGES_CLASS, _USER_PRIORITY = "vms.hbase.BeforeImages", 1_073_741_823


def attach_images(table: str, jar: str, family: str, columns: Sequence[bytes]) -> Command:
    """Let region servers attach the rows before and after it to each entry of the WAL, these columns of them.

    `jar` is a path that every region server can read, such as hdfs:///vms/vms-hbase-plugin.jar. The table's regions
    are opened anew.
    """
    properties = {"vms.family": family, "vms.columns": ";".join(map(_base64, columns))}
    request = {
        "do": "table.observe",
        "table": table,
        "class": _IMAGES_CLASS,
        "jar": jar,
        "properties": properties,
    }
    named = ",".join(f"{key}={value}" for key, value in properties.items())
    text = _text(f"{jar}|{_IMAGES_CLASS}|{_USER_PRIORITY}|{named}")
    return Command(request, f"alter {_text(table)}, METHOD => 'table_att', 'coprocessor' => {text}")


def detach_images(table: str) -> Command:
    """End that."""
    request = {"do": "table.observe", "table": table, "class": _IMAGES_CLASS}
    return Command(
        request, f"alter {_text(table)}, METHOD => 'table_remove_coprocessor', CLASSNAME => '{_IMAGES_CLASS}'"
    )


def flush(table: str) -> Command:
    return Command({"do": "table.flush", "table": table}, f"flush {_text(table)}")


def compact(table: str) -> Command:
    """A major compaction; it goes on in the background."""
    return Command({"do": "table.compact", "table": table}, f"major_compact {_text(table)}")


# --- regions ---------------------------------------------------------------------------------------------------


def regions(table: str) -> Command:
    """Answers a list of region, start, stop (base64) and server."""
    return Command({"do": "region.list", "table": table}, f"list_regions {_text(table)}")


def servers() -> Command:
    """Answers the region servers that are alive, as HOST,PORT,STARTCODE."""
    return Command({"do": "region.servers"}, "status 'simple'")


def split(table: str, key: bytes) -> Command:
    """Split the region that holds `key` there; finished when it is answered."""
    request = {"do": "region.split", "table": table, "key": _base64(key)}
    return Command(request, f"split {_text(table)}, {_bytes(key)}")


def merge(first: str, second: str) -> Command:
    """Merge two neighbours, by their encoded names."""
    request = {"do": "region.merge", "regions": [first, second]}
    return Command(request, f"merge_region {_text(first)}, {_text(second)}")


def move(region: str, server: str) -> Command:
    """Move a region, by its encoded name, to HOST,PORT,STARTCODE."""
    return Command({"do": "region.move", "region": region, "server": server}, f"move {_text(region)}, {_text(server)}")


def balancer(*, on: bool) -> Command:
    """Switch the balancer; answers how it was before."""
    return Command({"do": "region.balance", "on": on}, f"balance_switch {'true' if on else 'false'}")


def wal_files() -> Command:
    """Answers a list of server, log (the file's name), bytes and old (archived); through the file system of HBase."""
    return Command({"do": "logs.list"}, "status 'replication'")


# --- peers -----------------------------------------------------------------------------------------------------


def peers() -> Command:
    """Answers a list of peer, enabled, cluster_key, serial, tables and settings."""
    return Command({"do": "peer.list"}, "list_peers")


def add_peer(
    peer: str,
    cluster_key: str,
    tables: Sequence[str],
    settings: Mapping[str, str] | None = None,
    *,
    serial: bool = True,
    enabled: bool = True,
) -> Command:
    """Ship the changes of these tables to the cluster at HOST:PORT:/ZNODE; `serial`: in order through region moves."""
    request = {
        "do": "peer.add",
        "peer": peer,
        "cluster_key": cluster_key,
        "tables": sorted(tables),
        "settings": dict(settings or {}),
        "serial": serial,
        "enabled": enabled,
    }
    parts = [_text(peer), f'CLUSTER_KEY => "{cluster_key}"']
    parts += [f"SERIAL => {str(serial).lower()}", f"TABLE_CFS => {_tables(tables)}"]
    if settings:
        inside = ", ".join(f"{_text(name)} => {_text(value)}" for name, value in settings.items())
        parts.append(f"CONFIG => {{ {inside} }}")
    if not enabled:
        parts.append("STATE => 'DISABLED'")
    return Command(request, f"add_peer {', '.join(parts)}")


def set_peer_tables(peer: str, tables: Sequence[str]) -> Command:
    request = {"do": "peer.tables", "peer": peer, "tables": sorted(tables)}
    return Command(request, f"set_peer_tableCFs {_text(peer)}, {_tables(tables)}")


def remove_peer(peer: str) -> Command:
    return Command({"do": "peer.remove", "peer": peer}, f"remove_peer {_text(peer)}")


def enable_peer(peer: str, *, on: bool) -> Command:
    word = "enable" if on else "disable"
    return Command({"do": f"peer.{word}", "peer": peer}, f"{word}_peer {_text(peer)}")


# --- snapshots -------------------------------------------------------------------------------------------------


def snapshots() -> Command:
    """Answers a list of snapshot, table and created (milliseconds)."""
    return Command({"do": "snapshot.list"}, "list_snapshots")


def take_snapshot(table: str, snapshot: str) -> Command:
    request = {"do": "snapshot.create", "table": table, "snapshot": snapshot}
    return Command(request, f"snapshot {_text(table)}, {_text(snapshot)}")


def clone_snapshot(snapshot: str, table: str) -> Command:
    request = {"do": "snapshot.clone", "table": table, "snapshot": snapshot}
    return Command(request, f"clone_snapshot {_text(snapshot)}, {_text(table)}")


def delete_snapshot(snapshot: str) -> Command:
    return Command({"do": "snapshot.delete", "snapshot": snapshot}, f"delete_snapshot {_text(snapshot)}")


# --- rows ------------------------------------------------------------------------------------------------------


def mutate(table: str, mutations: Sequence[Mutation]) -> Command:
    """Changes of rows, each row's at once; also deletes of one version, which Thrift 1 does not have."""
    rows = [{"row": _base64(row), "cells": [_cell(cell) for cell in cells]} for row, cells in mutations]
    lines = [line for row, cells in mutations for line in (_cell_line(table, row, cell) for cell in cells)]
    return Command({"do": "rows.mutate", "table": table, "rows": rows}, "\n".join(lines))


def _cell(cell: Cell) -> list[Any]:
    return [_KINDS[cell.kind], _base64(cell.column), cell.ts, _base64(cell.value)]


def _cell_line(table: str, row: bytes, cell: Cell) -> str:
    at = f"{_text(table)}, {_bytes(row)}, {_bytes(cell.column)}"
    if cell.kind == PUT:
        return f"put {at}, {_bytes(cell.value)}, {cell.ts}"
    return f"{'delete' if cell.kind == DELETE_VERSION else 'deleteall'} {at}, {cell.ts}"


# --- words of the shell ----------------------------------------------------------------------------------------


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _text(value: str) -> str:
    """A Ruby text in single quotes: only those and the backslash mean something in it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _bytes(value: bytes) -> str:
    """A Ruby text in double quotes, with every byte that is not plain written out."""
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\#' else f"\\x{b:02x}" for b in value)
    return f'"{plain}"'


def _family(name: str, settings: Mapping[str, str]) -> str:
    parts = [f"NAME => {_text(name)}", *(f"{key} => {_text(value)}" for key, value in settings.items())]
    return "{" + ", ".join(parts) + "}"


def _tables(tables: Sequence[str]) -> str:
    return "{ " + ", ".join(f"{_text(table)} => []" for table in sorted(tables)) + " }"
