"""The command `jetgate` without the guard named by JETGATE_TEST_CONTROL, with a shifted clock.

`python -m tests.histories.guardless SECONDS ...` shifts the wall clock by SECONDS before the first
import of a jetgate module, and removes the guard (see `tests.histories.controls`).
"""

import os
import sys

from tests.support.wrong_clock import shift

CONTROL_VARIABLE = "JETGATE_TEST_CONTROL"

if __name__ == "__main__":
    shift(int(sys.argv.pop(1)))
    from jetgate.commands import main
    from tests.histories.controls import CONTROLS

    CONTROLS[os.environ[CONTROL_VARIABLE]].remove()
    main()
