"""VMS: always-fresh SQL views inside HBase."""

from vms.manager.database import Database, View, connect

__all__ = ["Database", "View", "connect"]
