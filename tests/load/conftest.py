"""A fixture of several modules."""

from tests.support.dropin import name  # noqa: F401  (a fixture)
