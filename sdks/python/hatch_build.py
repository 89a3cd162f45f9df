"""Build hook that generates `jetgate_client.generated` before a wheel or sdist of the SDK is built.

In a checkout, `sdks/generate.py` generates the code from the OpenAPI document. An sdist contains
the generated code, so a wheel that is built from it needs no generator.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
IS_SDIST = (HERE / "PKG-INFO").exists()
if not IS_SDIST:
    sys.path.insert(0, str(HERE.parent))
    import generate


class GeneratedCode(BuildHookInterface[Any]):
    """The build hook that hatchling calls."""

    def dependencies(self) -> list[str]:
        """Return the requirements of the build: the generator; none if the code is current."""
        return [] if IS_SDIST or generate.is_current() else [generate.GENERATOR]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate the code, unless this is an sdist."""
        if not IS_SDIST:
            generate.python()
