"""The limit: for each benchmarked view one program written by hand, fixed to its query (one file a query).

Same input and same output as the engine: batches of decoded base-table changes in, the changed view rows of
each batch out. A delete names the key alone, so each limit keeps the base rows in a table of its own, as a
DeltaView does. What a limit may do and the engine may not: know the schema, the query and its constants at
compile time, fuse everything into one loop per table, and add in 64 bits (the sums of these queries fit up to
scale factor 10).

A limit takes inserts, overwrites and deletes of whole rows without NULL; partial puts are not part of the
benchmark.
"""

from __future__ import annotations

from bench.micro.base import Emitted, Limit
from bench.micro.q01 import Q01
from bench.micro.q03 import Q03
from bench.micro.q05 import Q05
from bench.micro.q06 import Q06
from bench.micro.q12 import Q12

LIMITS: dict[str, type[Limit]] = {"q01": Q01, "q03": Q03, "q05": Q05, "q06": Q06, "q12": Q12}

__all__ = ["LIMITS", "Emitted", "Limit"]
