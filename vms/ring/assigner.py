"""The Assigner: which member owns which slot, by consistent hashing with bounded imbalance (thesis 4.3.1).

Each member has points on a ring of hashes; a slot goes to the first member clockwise that still has room.
So a member that joins or leaves moves little more than its own share, and no member owns more than
`ceil(slots / members)` slots.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable

import numpy as np
import xxhash

from vms.errors import UserError
from vms.model.ring import SLOTS, Ring

#: Points of one member on the ring. Not lower, or shares would be uneven before the bound evens them out by
#: moving more slots than needed; not higher, because 64 already leaves about one slot in ten to the bound.
POINTS = 64


def assign(version: int, members: Iterable[str]) -> Ring:
    """The ring of these members; the same in every process, whatever order they are given in."""
    names = tuple(sorted(set(members)))
    if not names:
        raise UserError("a ring needs at least one member")
    points = sorted((xxhash.xxh3_64_intdigest(f"{m}#{i}".encode()), m) for m in names for i in range(POINTS))
    hashes = [h for h, _ in points]
    room = {m: -(-SLOTS // len(names)) for m in names}
    owners = np.empty(SLOTS, np.int64)
    for slot in range(SLOTS):
        at = bisect.bisect(hashes, xxhash.xxh3_64_intdigest(f"slot {slot}".encode())) % len(points)
        while not room[points[at][1]]:
            at = (at + 1) % len(points)
        owner = points[at][1]
        room[owner] -= 1
        owners[slot] = names.index(owner)
    return Ring(version, names, owners)
