"""`$JS.API.*`: one row per request subject."""
