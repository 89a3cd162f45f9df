"""Generate `jetgate_client.generated` before a wheel or an sdist of the SDK is built.

In a checkout `sdks/generate.py` does it. An sdist contains the generated code, and its wheel needs
neither the contract nor the generator.
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
    """The build hook of hatchling."""

    def dependencies(self) -> list[str]:
        """Return the requirements of the build: the generator, unless the code is current."""
        return [] if IS_SDIST or generate.is_current() else [generate.GENERATOR]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate the code."""
        if not IS_SDIST:
            generate.python()
