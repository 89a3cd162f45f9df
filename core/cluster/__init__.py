"""Leader election among the nodes of one database, and how long a node may trust its lease."""
