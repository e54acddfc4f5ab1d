"""The last operation of a view: its changes as rows to put and rows to delete."""

from __future__ import annotations

from vms.errors import ProtocolViolation
from vms.kernels.consolidate import consolidate, puts_of_keys
from vms.kernels.keys import key_words
from vms.maintenance.messages import ViewRows
from vms.model.changes import Changes
from vms.plan.plan import Node, Output


def view_rows(node: Node, changes: Changes) -> ViewRows:
    """One operation per view row and epoch (design section 6): a put of the new content, or a delete.

    A row that leaves and comes back under the same key is only put: the delete would mask it.
    """
    assert isinstance(node.spec, Output)
    changes = consolidate(changes, node.types)
    if not len(changes):
        return ViewRows(changes, changes)
    types = [node.types[k] for k in node.spec.key]
    words = key_words([changes.columns[k] for k in node.spec.key], types, len(changes), nullable=True)
    most, removed = puts_of_keys(words, changes.weights)
    if most > 1:
        raise ProtocolViolation(f"view {node.spec.view}: two rows with one key {node.spec.key} in one epoch")
    return ViewRows(changes.where(changes.weights > 0), changes.where(removed))
