"""The build backend of the repository: hatchling, and the generated code for an editable install.

`pip install -e .` puts `sdks/python` on the path, so its generated code is made then. A wheel or an
sdist of the server contains no SDK and needs no generator.
"""

from typing import Any

import generate
import hatchling.build

Settings = dict[str, Any] | None


def __getattr__(name: str) -> Any:
    """Return the hook of hatchling: all but those below."""
    return getattr(hatchling.build, name)


def get_requires_for_build_editable(config_settings: Settings = None) -> list[str]:
    """Return the requirements of an editable install: the generator, unless the code is current."""
    requirements = hatchling.build.get_requires_for_build_editable(config_settings)
    return requirements if generate.is_current() else [*requirements, generate.GENERATOR]


def build_editable(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,
) -> str:
    """Generate the code of the Python SDK, then build the wheel of an editable install."""
    generate.python()
    return hatchling.build.build_editable(wheel_directory, config_settings, metadata_directory)
