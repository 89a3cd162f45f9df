"""The page `docs/compatibility.md`, and the check that it agrees with the results of tests."""
