"""The clock: strictly increasing, whatever the wall does and however often it is started again."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from vms.clock import Clock


class Wall:
    """A wall clock that shows what it is told to, and the durable value that a clock reserves."""

    def __init__(self, time: int = 1_000_000) -> None:
        self.time, self.reserved = time, 0

    def clock(self) -> Clock:
        return Clock(self.reserved, self._reserve, lambda: self.time)

    def _reserve(self, time: int) -> None:
        assert time > self.reserved
        self.reserved = time


def test_it_follows_the_wall() -> None:
    wall = Wall()
    clock = wall.clock()
    assert clock.stamps(1) == wall.time
    wall.time += 5_000
    assert clock.stamps(1) == wall.time == clock.now()


def test_stamps_lie_a_step_apart() -> None:
    wall = Wall()
    clock = wall.clock()
    first = clock.stamps(10, step=2)
    assert clock.now() == first + 18
    assert clock.stamps(1) == first + 20


def test_a_wall_that_goes_back_does_not_take_it_along() -> None:
    wall = Wall()
    clock = wall.clock()
    before = clock.stamps(1)
    wall.time -= 3_600_000
    assert clock.now() >= before
    assert clock.stamps(1) > before


def test_reserving_is_rare() -> None:
    wall, reserved = Wall(), []
    clock = Clock(0, reserved.append, lambda: wall.time)
    for _ in range(10_000):
        wall.time += 1
        clock.stamps(1)
    assert len(reserved) <= 2 * 10_000 / Clock.AHEAD_MS + 1


def test_starting_again_and_again_keeps_to_the_wall() -> None:
    """A process that dies as soon as it has written, and takes a second to start."""
    wall = Wall()
    for _ in range(1_000):
        stamp = wall.clock().stamps(1)
        wall.time += 1_000
    assert stamp - wall.time < 3 * Clock.AHEAD_MS


def test_threads_share_no_stamp() -> None:
    clock, taken = Wall().clock(), []

    def take() -> None:
        taken.extend([clock.stamps(3) for _ in range(500)])

    threads = [threading.Thread(target=take) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(taken) == list(range(min(taken), min(taken) + 6 * len(taken), 6))


@given(st.lists(st.one_of(st.integers(-5_000, 5_000), st.just("crash"), st.integers(1, 40).map(lambda n: (n,)))))
def test_no_stamp_is_ever_given_twice(events: list) -> None:
    """The wall moves either way, stamps are taken, the process dies: later stamps are above earlier ones."""
    wall = Wall()
    clock, last = wall.clock(), 0
    for event in events:
        if event == "crash":
            clock = wall.clock()
        elif isinstance(event, int):
            wall.time += event
        else:
            (count,) = event
            first = clock.stamps(count)
            assert first > last
            last = first + 2 * (count - 1)
            assert clock.now() >= last
            assert wall.reserved > last
