"""What every operation is (design section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from vms.model.changes import Bool, Changes, Int64


class Operation(Protocol):
    """Changes in, changes out, over own state; a pure function of the state and the *multisets* that come in.

    Guarantees: the sum of all that `step` ever emitted equals the operation applied to the sum of all that it
    was given; what it emits holds no row twice and no zero weight where the docstring of the operation says
    so. It does no I/O, knows no clock and starts no thread.
    """

    def step(self, inputs: Sequence[Changes]) -> Changes:
        """The change of the output that the changes of the inputs bring (one batch for each input)."""

    def export(self, slots: Bool) -> list[pa.RecordBatch]:
        """The state whose slot is set in `slots` (1024 flags): the checkpoint and hand-over format.

        Text is content, not codes. A pure function of the state up to row order.
        """

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Add exported state (of slots that are empty here)."""

    def drop(self, slots: Bool) -> None:
        """Forget the state of these slots, emitting nothing."""

    def live_text(self) -> list[Int64]:
        """Every text code that the state holds."""

    def memory_bytes(self) -> int:
        """Bytes of the arrays that the state holds."""


class StatefulOperation(Operation, Protocol):
    """An operation whose whole output can be made from its state."""

    def contents(self) -> Changes:
        """The sum of all emitted so far: the first input of an operation added later."""
