"""The tests of jetgate: one command runs them all, nothing has to be started by hand."""
