"""Marks in HBase's stream when several managers take it: one may come to any of them (vms/stream/hbase_marks.py)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from vms.errors import StoreUnavailable
from vms.manager.control_client import ControlClient
from vms.ring.membership import Membership
from vms.stream.hbase_marks import MarkBoard

_LOOK_SECONDS = 0.2


class SharedBoard:
    """`MarkBoard` over all managers: what came to any of them has come."""

    def __init__(self, board: MarkBoard, id_: str, membership: Membership, client: ControlClient) -> None:
        self._board, self._id, self._membership, self._client = board, id_, membership, client
        self.table = board.table

    def expect(self, marks: Collection[bytes]) -> None:
        self._board.expect(marks)
        self._ask({"expect": list(marks)})

    def wait(self, marks: Collection[bytes], deadline: float, broken: Callable[[], bool]) -> bool:
        left = set(marks)
        while True:
            left -= set(self._board.seen(left))
            for seen in self._ask({"seen": sorted(left)}) if left else ():
                left -= set(seen)
            if not left:
                return True
            if time.monotonic() > deadline or broken():
                return False
            time.sleep(_LOOK_SECONDS)

    def _ask(self, question: Mapping[str, Any]) -> list[list[bytes]]:
        """Every other manager; one that does not answer has seen nothing."""
        found = []
        for id_, manager in self._membership.managers().items():
            if id_ != self._id:
                with suppress(StoreUnavailable):
                    found.append(self._client.ask(manager.address, "Marks", question))
        return found

    def answer(self, question: Mapping[str, Any]) -> list[bytes]:
        """What another manager asks."""
        self._board.expect([bytes(mark) for mark in question.get("expect", ())])
        return self._board.seen([bytes(mark) for mark in question.get("seen", ())])
