"""Whether the changes of an HBase table can be followed at all: what HBase removes by itself reaches no WAL."""

from __future__ import annotations

from collections.abc import Mapping

from vms.errors import UserError
from vms.model.table import BaseTable

#: What HBase says of a family whose cells stay for good, in seconds.
FOREVER = (1 << 31) - 1


def check_followable(table: BaseTable, families: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse a table whose rows would change without a word; `families` as `hbase_commands.describe_table` answers."""
    family = families.get(table.family)
    if family is None:
        raise UserError(
            f"table {table.name} has no family {table.family} in HBase; it has {', '.join(sorted(families))}: "
            f"declare the table WITH (family = '...')"
        )
    ttl = family.get("TTL", str(FOREVER))
    if ttl.upper() != "FOREVER" and int(ttl) < FOREVER:
        raise UserError(
            f"family {table.family} of table {table.name} has a TTL of {ttl} s: HBase removes what is older and "
            f"tells nobody, so no view can follow it; keep the cells for good with: "
            f"vms hbase admin set-family {table.name} {table.family} TTL={FOREVER}"
        )


def check_imageable(table: BaseTable, families: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse before-images of a table whose deletes hide puts by another rule than that of timestamps."""
    check_followable(table, families)
    if families[table.family].get("NEW_VERSION_BEHAVIOR", "false").lower() == "true":
        raise UserError(
            f"family {table.family} of table {table.name} has NEW_VERSION_BEHAVIOR: before-images are not made for it; "
            "attach the table without them"
        )
