"""Who owns a slot: one version of the slot map, plain data (design section 7)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vms.model.changes import Bool, Int64

#: Fixed number of slots. Not lower, or 400 members could not be balanced; not higher, or the slot map and the
#: watermarks per (slot, region) would cost more than they bring.
SLOTS = 1024


@dataclass(frozen=True, eq=False)
class Ring:
    """Version `version` of the slot map: slot s belongs to `members[owners[s]]`. Every member owns some slot."""

    version: int
    members: tuple[str, ...]
    owners: Int64
    _index: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_index", {m: i for i, m in enumerate(self.members)})

    def owned(self, member: str) -> Bool:
        """Flags of the slots that belong to `member` (none if it is not in this ring)."""
        index = self._index.get(member)
        return np.zeros(SLOTS, np.bool_) if index is None else self.owners == index

    def __contains__(self, member: str) -> bool:
        return member in self._index

    def owner(self, slot: int) -> str:
        return self.members[int(self.owners[slot])]
