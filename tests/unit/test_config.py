"""Settings of a View Manager: which one wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from vms.config import ManagerConfig, load
from vms.errors import UserError


def test_flags_go_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "vms.toml"
    file.write_text('[manager]\nmembers = 2\nlog = "off"\nid = "file"\n')
    found = load(file, {"id": "flag", "log": None}, {"VMS_MANAGER_MEMBERS": "3", "VMS_MANAGER_ID": "env"})
    assert (found.id, found.members, found.log) == ("flag", 3, "off")


def test_nothing_listens_to_other_machines_unless_it_is_told_to() -> None:
    config = ManagerConfig()
    assert {config.listen.partition(":")[0], config.wal_listen.partition(":")[0]} == {"127.0.0.1"}
    assert config.metrics == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[manager]\nmember = 2", "no setting member"),
        ("[manager]\nmembers = 0", "at least one"),
        ('[manager]\nmembers = "many"', "not a whole number"),
        ("[manager]\nlog_format = true", "not a text"),
        ('[manager]\nlog_format = "xml"', "text or json"),
        ("[manager]\nepoch_interval = 0", "more than 0"),
        ('[manager]\nlisten = "here"', "HOST:PORT"),
        ("[managers]\nmembers = 2", "one section"),
        ("members", "cannot be read"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "vms.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=message):
        load(file, env={})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no file .*nothing\.toml"):
        load(tmp_path / "nothing.toml", env={})
