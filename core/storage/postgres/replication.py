"""Finds the standbys of a database, and the risk of a failover to one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# A role that may not read the statistics of others sees their rows without `state`. A logical
# replication session has a database; one that streams WAL to a standby or a backup has none.
REPLICATION = """
    current_setting('synchronous_standby_names') as synchronous,
    pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_replication,
    (select count(*) from pg_stat_replication r left join pg_stat_activity a using (pid)
      where a.datid is null and coalesce(r.state, 'streaming') in ('streaming', 'catchup'))
      as standbys
"""
"""SQL columns for a query, whose row `Replication.of` takes."""


@dataclass(frozen=True, slots=True)
class Replication:
    """The standbys of a database.

    Attributes:
        synchronous: The setting `synchronous_standby_names`.
        standbys: Number of connected standbys.
        is_seen: True if the role has the right to see whether a replication session belongs to a
            standby or to a running backup.
    """

    synchronous: str
    standbys: int
    is_seen: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Replication":
        """Return the standbys by a row with the columns of `REPLICATION`."""
        return cls(row["synchronous"], row["standbys"], row["sees_replication"])

    @property
    def found(self) -> str:
        """Text for operators: number of connected standbys, and whether they are synchronous."""
        if self.synchronous:
            return f"synchronous_standby_names = {self.synchronous}"
        if not self.standbys:
            return "no standby is connected"
        there = "1 standby is" if self.standbys == 1 else f"{self.standbys} standbys are"
        if not self.is_seen:
            there = f"{self.standbys} sessions, standbys or backups (pg_monitor may see which), are"
        return f"{there} connected, and synchronous_standby_names is empty"

    @property
    def cost(self) -> str:
        """The risk of this setup and the advice against it; empty if there is no risk.

        The risk is an asynchronous standby: a failover to it loses the last acknowledged messages.
        """
        if self.synchronous or not self.standbys:
            return ""
        return (
            "a failover to a standby loses what was acknowledged last:"
            " name one in synchronous_standby_names"
        )
