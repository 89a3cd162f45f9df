"""Several nodes over one database: who leads, and how long we may believe that we do."""
