"""The simulation notices a broken protocol: each member or log below breaks one rule on purpose.

A check that nothing can fail proves nothing. For every broken rule some seed must be caught, and the same seed
must pass with the rule kept: so it is the rule that was missed, not something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from vms.maintenance.cut import Checkpoint, Cut
from vms.maintenance.epoch_run import EpochRun
from vms.maintenance.member import Member, Phase
from vms.maintenance.messages import Acknowledge, Batch, CutStands, Delivered, Effect, Event, Handoff, Send
from vms.testing.checker import Violation
from vms.testing.memory_log import MemoryLog
from vms.testing.simulate import simulate


class TokenDropped(Member):
    """Does not tell the others that it has nothing for them."""

    def handle(self, event: Event) -> list[Effect]:
        return [e for e in super().handle(event) if not _is_token(e)]


def _is_token(effect: Effect) -> bool:
    return isinstance(effect, Send) and isinstance(effect.message, Batch) and effect.message.rows is None


class TokenNotAwaited(Member):
    """Takes silence for a token: closes an edge before everybody has sent."""

    def _cut_stands(self, event: CutStands) -> list[Effect]:
        effects = super()._cut_stands(event)
        run = self._run
        if self.phase is Phase.RUNNING and run is not None:
            for edge, member in run.missing():
                run.receive(edge, member, None)
            effects += self._advance()
        return effects


class AcknowledgedEarly(Member):
    """Acknowledges what it received before any owner has it in a durable cut."""

    def handle(self, event: Event) -> list[Effect]:
        effects = super().handle(event)
        return [*effects, Acknowledge(event.delivery, 0)] if isinstance(event, Delivered) else effects


class StaleWatermarkSaved(Member):
    """Saves its state with the watermarks of an earlier moment."""

    def checkpoint(self) -> Checkpoint:
        saved = super().checkpoint()
        return replace(saved, watermarks={r: marks // 2 for r, marks in saved.watermarks.items()})


class StaleWatermarkMoved(Member):
    """Hands slots over without saying how far the stream was taken in."""

    def _hand_over(self, *rings: object) -> list[Effect]:
        effects = super()._hand_over(*rings)  # type: ignore[arg-type]
        for member, handoff in self._handoffs.items():
            self._handoffs[member] = replace(handoff, watermarks={})
        return [_without_watermarks(e) for e in effects]


def _without_watermarks(effect: Effect) -> Effect:
    if isinstance(effect, Send) and isinstance(effect.message, Handoff):
        return Send(effect.to, replace(effect.message, watermarks={}))
    return effect


class DoneEarly(Member):
    """Says that it is done while its view rows are still on their way."""

    def _finish(self, run: EpochRun) -> list[Effect]:
        return [*super()._finish(run), *self._finished("received"), *self._finished("rows")]


class TwoCuts(MemoryLog):
    """Lets a second copy of a member replace the cut that stands."""

    def propose(self, member: str, cut: Cut) -> tuple[Cut, bool] | None:
        standing = super().propose(member, cut)
        return None if standing is None else (cut, True)


@dataclass(frozen=True)
class Sabotage:
    """What is broken, the faults that can bring it to light, and what the checker says then."""

    found: str
    faults: tuple[str, ...]
    member: type[Member] = Member
    log: Callable[[], MemoryLog] = MemoryLog


SABOTAGES = {
    "a token is dropped": Sabotage("not settled", (), TokenDropped),
    "a token is not awaited": Sabotage("rows missing", (), TokenNotAwaited),
    "an fsync is skipped": Sabotage("two cuts", ("crash",), log=lambda: MemoryLog(volatile=True)),
    "acknowledged early": Sabotage("never reached the views", ("crash", "loss"), AcknowledgedEarly),
    "a stale watermark is saved": Sabotage("watermark of its slot went back", ("crash",), StaleWatermarkSaved),
    "a stale watermark is moved": Sabotage("watermark of its slot went back", ("ring",), StaleWatermarkMoved),
    "done before its rows are written": Sabotage("rows missing", ("slow",), DoneEarly),
    "a second cut replaces the first": Sabotage("two cuts", ("session", "slow"), log=TwoCuts),
}


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_broken_rule_is_caught(name: str) -> None:
    sabotage = SABOTAGES[name]
    for seed in range(30):
        try:
            simulate(seed, faults=sabotage.faults, log=sabotage.log(), make_member=sabotage.member)
        except Violation as violation:
            assert sabotage.found in str(violation)
            simulate(seed, faults=sabotage.faults, log=MemoryLog())
            return
    pytest.fail("no seed noticed it")
