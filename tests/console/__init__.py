"""The console in a real browser, used as people use it."""
