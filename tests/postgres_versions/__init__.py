"""Storage on every version of PostgreSQL that is served and can be found here."""
