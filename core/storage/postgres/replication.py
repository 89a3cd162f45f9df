"""Standbys of a database: whether a fail-over to one would lose what was acknowledged."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Who may not read the statistics of others sees their rows without `state`. A session of logical
# replication has a database, one that sends the log to a standby or a backup has none.
REPLICATION = """
    current_setting('synchronous_standby_names') as synchronous,
    pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_replication,
    (select count(*) from pg_stat_replication r left join pg_stat_activity a using (pid)
      where a.datid is null and coalesce(r.state, 'streaming') in ('streaming', 'catchup'))
      as standbys
"""
"""Columns for a query, which `Replication.of` reads."""


@dataclass(frozen=True, slots=True)
class Replication:
    """Which standbys there are.

    Attributes:
        synchronous: the setting `synchronous_standby_names`.
        standbys: how many are connected.
        is_seen: whether the role may see if they are standbys, or backups under way.
    """

    synchronous: str
    standbys: int
    is_seen: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Replication":
        """Read the columns of `REPLICATION`."""
        return cls(row["synchronous"], row["standbys"], row["sees_replication"])

    @property
    def found(self) -> str:
        """What is there, in words."""
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
        """What that costs, and what to do; empty: nothing."""
        if self.synchronous or not self.standbys:
            return ""
        return (
            "a failover to a standby loses what was acknowledged last:"
            " name one in synchronous_standby_names"
        )
