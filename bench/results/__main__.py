"""`python -m bench.results record` or `plot`."""

from __future__ import annotations

import sys

from bench.results.plot import plot
from bench.results.record import record

if sys.argv[1:] not in (["record"], ["plot"]):
    sys.exit("usage: python -m bench.results record | plot")
print(record() if sys.argv[1] == "record" else plot())
