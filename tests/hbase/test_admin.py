"""The Java helper: what Thrift cannot do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner
from store_contract import A, B, put, stamps, values, version_delete

from vms.cli.main import cli
from vms.devcluster.cluster import DevCluster
from vms.errors import AlreadyExists, StoreUnavailable, TableMissing, UnknownName, UserError, VmsError
from vms.model.table import BaseTable, TableColumn
from vms.model.types import BIGINT
from vms.store import hbase_commands as commands
from vms.store.base import Cell, Family, Mutation
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress
from vms.store.hbase_admin import HBaseAdmin
from vms.store.hbase_follow import FOREVER, check_followable
from vms.viewtable.layout import FAMILIES


def test_families_have_the_settings_that_were_asked_for(hbase: HBaseStore, name: str) -> None:
    hbase.create_table(name, {"f": Family(), **FAMILIES}, stream=True)
    found = hbase.admin.run(commands.describe_table(name))
    assert found.keys() == {"f", "v"}
    wanted = {"VERSIONS": "32", "MIN_VERSIONS": "32", "TTL": "86400", "KEEP_DELETED_CELLS": "TTL"}
    wanted |= {"BLOOMFILTER": "ROW", "REPLICATION_SCOPE": "1"}
    assert found["v"].items() >= wanted.items()
    assert (found["f"]["VERSIONS"], found["f"]["KEEP_DELETED_CELLS"]) == ("1", "FALSE")


def test_a_changed_setting_leaves_the_others(hbase: HBaseStore, name: str) -> None:
    hbase.create_table(name, {"f": Family(versions=7), "g": Family()})
    hbase.admin.run(commands.alter_family(name, "f", {"MIN_VERSIONS": "2"}))
    hbase.admin.run(commands.replicate(name, ["f", "g"], on=True))
    found = hbase.admin.run(commands.describe_table(name))
    assert {f: [s[k] for k in ("VERSIONS", "MIN_VERSIONS", "REPLICATION_SCOPE")] for f, s in found.items()} == {
        "f": ["7", "2", "1"],
        "g": ["1", "0", "1"],
    }
    with pytest.raises(VmsError, match="has no family h"):
        hbase.admin.run(commands.alter_family(name, "h", {"VERSIONS": "2"}))


def test_peers_come_and_go(hbase: HBaseStore, name: str, up: DevCluster) -> None:
    hbase.create_table(name, {"f": Family()}, stream=True)
    peer, key = name.replace("_", ""), f"127.0.0.1:{up.ports.zookeeper}:/peer-{name}"
    settings = {"replication.source.ratio": "1.0"}
    hbase.admin.run(commands.add_peer(peer, key, [name], settings, enabled=False))
    try:
        found = {p["peer"]: p for p in hbase.admin.run(commands.peers())}[peer]
        assert found == {
            "peer": peer,
            "enabled": False,
            "cluster_key": key,
            "serial": True,
            "tables": [name],
            "settings": settings,
        }
        hbase.create_table(name + "2", {"f": Family()}, stream=True)
        hbase.admin.run(commands.set_peer_tables(peer, [name, name + "2"]))
        (found,) = [p for p in hbase.admin.run(commands.peers()) if p["peer"] == peer]
        assert found["tables"] == [name, name + "2"] and found["serial"] and found["settings"] == settings
    finally:
        hbase.admin.run(commands.remove_peer(peer))
    assert peer not in {p["peer"] for p in hbase.admin.run(commands.peers())}
    with pytest.raises(UnknownName, match=peer):
        hbase.admin.run(commands.remove_peer(peer))


def test_a_snapshot_becomes_a_table(hbase: HBaseStore, name: str) -> None:
    hbase.create_table(name, {"f": Family()})
    hbase.mutate(name, [put(b"r", 1, a=b"old")])
    hbase.admin.run(commands.take_snapshot(name, f"s_{name}"))
    hbase.mutate(name, [put(b"r", 2, a=b"new")])
    with pytest.raises(AlreadyExists):
        hbase.admin.run(commands.take_snapshot(name, f"s_{name}"))
    assert f"s_{name}" in {s["snapshot"] for s in hbase.admin.run(commands.snapshots())}
    hbase.admin.run(commands.clone_snapshot(f"s_{name}", name + "2"))
    assert values(hbase.get(name + "2", b"r")) == {A: b"old"}
    hbase.admin.run(commands.delete_snapshot(f"s_{name}"))
    assert f"s_{name}" not in {s["snapshot"] for s in hbase.admin.run(commands.snapshots())}


def test_regions_move_and_merge(hbase: HBaseStore, name: str, up: DevCluster) -> None:
    hbase.create_table(name, {"f": Family()}, [b"m"])
    hbase.mutate(name, [put(b"a", 1, a=b"1"), put(b"z", 1, a=b"1")])
    servers = set(hbase.admin.run(commands.servers()))
    assert len(servers) == up.region_servers
    before = hbase.admin.run(commands.balancer(on=False))
    try:
        first = hbase.admin.run(commands.regions(name))[0]
        (other,) = servers - {first["server"]}
        hbase.admin.run(commands.move(first["region"], other))
        assert hbase.admin.run(commands.regions(name))[0] == {**first, "server": other}
    finally:
        hbase.admin.run(commands.balancer(on=before))
    hbase.admin.run(commands.merge(*(region.id for region in hbase.regions(name))))
    assert [(r.start, r.stop) for r in hbase.regions(name)] == [(b"", b"")]
    assert [row for row, _ in hbase.scan(name)] == [b"a", b"z"]


def test_what_the_deletes_of_thrift_cannot_do(hbase: HBaseStore, name: str) -> None:
    """A delete of one version uncovers the one before it, and goes together with puts of the same row."""
    hbase.create_table(name, {"f": Family(versions=5)})
    hbase.mutate(name, [put(b"r", 1, a=b"1"), put(b"r", 2, a=b"2")])
    hbase.mutate(name, [Mutation(b"r", (*version_delete(b"r", 2).cells, Cell(B, 3, value=b"3")))])
    assert stamps(hbase.versions(name, b"r", A)) == [1]
    assert values(hbase.get(name, b"r")) == {A: b"1", B: b"3"}


def test_a_flush_and_a_compaction_change_no_read(hbase: HBaseStore, name: str) -> None:
    hbase.create_table(name, {"f": Family(versions=3)})
    for ts in range(1, 8):
        hbase.mutate(name, [put(b"r", ts, a=b"%d" % ts)])
        if ts == 4:
            hbase.admin.run(commands.flush(name))
    hbase.admin.run(commands.flush(name))
    hbase.admin.run(commands.compact(name))
    assert stamps(hbase.versions(name, b"r", A)) == [7, 6, 5]


def test_a_helper_that_was_killed_is_started_again(hbase: HBaseStore, name: str) -> None:
    assert hbase.admin.run(commands.servers())
    assert hbase.admin._process is not None
    hbase.admin._process.kill()
    hbase.admin._process.wait()
    assert hbase.admin.run(commands.servers())


def test_a_table_that_is_missing_is_told_by_the_helper(hbase: HBaseStore) -> None:
    with pytest.raises(TableMissing, match="gone"):
        hbase.admin.run(commands.describe_table("gone"))


def test_an_hbase_that_is_not_there_is_told() -> None:
    nowhere = HBaseAdmin(HBaseAddress("127.0.0.1", 1, "127.0.0.1:1"))
    with pytest.raises(StoreUnavailable):
        nowhere.run(commands.servers())
    nowhere.close()


def run_cli(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(arguments))
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "arguments, shell",
    [
        (("describe", "t"), "describe 't'"),
        (
            ("set-family", "ns:t", "f", "VERSIONS=3", "TTL=60"),
            "alter 'ns:t', {NAME => 'f', VERSIONS => '3', TTL => '60'}",
        ),
        (("split", "it's", 'a\\x00"#'), "split 'it\\'s', \"a\\x00\\x22\\x23\""),
        (
            ("add-peer", "vms", "z:2181:/vms", "t", "--setting", "a.b=1"),
            "add_peer 'vms', CLUSTER_KEY => \"z:2181:/vms\", SERIAL => true, "
            "TABLE_CFS => { 't' => [] }, CONFIG => { 'a.b' => '1' }",
        ),
        (("remove-peer", "vms"), "remove_peer 'vms'"),
        (("snapshot", "t", "s"), "snapshot 't', 's'"),
        (("move", "abc", "h,1,2"), "move 'abc', 'h,1,2'"),
    ],
)
def test_print_shows_the_same_for_the_shell(arguments: tuple[str, ...], shell: str) -> None:
    assert run_cli("hbase", "admin", *arguments, "--print") == (0, shell + "\n")


def test_the_whole_descriptor_of_a_table_for_the_shell() -> None:
    settings = {name: commands.family_settings(family) for name, family in FAMILIES.items()}
    assert commands.create_table("ns:t", settings, [b"\x80"]).shell == (
        "create_namespace 'ns'\n"
        "create 'ns:t', {NAME => 'v', VERSIONS => '32', BLOOMFILTER => 'ROW', MIN_VERSIONS => '32', TTL => '86400', "
        "KEEP_DELETED_CELLS => 'TTL'}, SPLITS => [\"\\x80\"]"
    )


def test_the_command_line_does_it(hbase: HBaseStore, name: str, up: DevCluster) -> None:
    hbase.create_table(name, {"f": Family()})
    store = ("--store", str(up.address), "hbase", "admin")
    assert run_cli(*store, "set-family", name, "f", "VERSIONS=4") == (0, "")
    code, text = run_cli(*store, "describe", name)
    assert code == 0 and "VERSIONS" in text and "4" in text
    code, text = run_cli(*store, "describe", "gone")
    assert code == 1 and "HBase has no table gone" in text
    code, text = run_cli(*store, "set-family", name, "f", "VERSIONS")
    assert code == 1 and "NAME=VALUE" in text


def test_a_family_with_a_ttl_cannot_be_followed(hbase: HBaseStore, name: str) -> None:
    table = BaseTable(name, (TableColumn("k", BIGINT, nullable=False),), ("k",), family="f")
    hbase.create_table(name, {"f": Family(ttl_ms=60_000), "g": Family()}, stream=True)
    described = hbase.admin.run(commands.describe_table(name))
    with pytest.raises(UserError, match=r"has a TTL of 60 s.*set-family \w+ f TTL=2147483647"):
        check_followable(table, described)
    with pytest.raises(UserError, match="has no family h in HBase; it has f, g"):
        check_followable(replace(table, family="h"), described)
    hbase.admin.run(commands.alter_family(name, "f", {"TTL": str(FOREVER)}))
    check_followable(table, hbase.admin.run(commands.describe_table(name)))
