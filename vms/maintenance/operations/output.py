"""The last operation of a view: its changes as rows to put and rows to delete."""

from __future__ import annotations

from vms.errors import ProtocolViolation
from vms.kernels.consolidate import consolidate
from vms.kernels.keys import KeyIndex, key_width, key_words
from vms.maintenance.messages import ViewRows
from vms.model.changes import Changes
from vms.plan.plan import Node, Output


def view_rows(node: Node, changes: Changes) -> ViewRows:
    """One operation per view row and epoch (design section 6): a put of the new content, or a delete.

    A row that leaves and comes back under the same key is only put: the delete would mask it.
    """
    assert isinstance(node.spec, Output)
    changes = consolidate(changes, node.types)
    puts, gone = changes.take(changes.weights > 0), changes.take(changes.weights < 0)
    types = [node.types[k] for k in node.spec.key]
    index = KeyIndex(key_width(types, nullable=True))
    _, fresh = index.upsert(key_words([puts.columns[k] for k in node.spec.key], types, len(puts), nullable=True))
    if len(puts) and (int(puts.weights.max()) > 1 or len(fresh) < len(puts)):
        raise ProtocolViolation(f"view {node.spec.view}: two rows with one key {node.spec.key} in one epoch")
    words = key_words([gone.columns[k] for k in node.spec.key], types, len(gone), nullable=True)
    return ViewRows(puts, gone.take(index.lookup(words) < 0))
