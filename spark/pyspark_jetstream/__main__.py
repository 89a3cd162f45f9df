"""`python -m pyspark_jetstream`, and what `spark-submit` is given: `.../__main__.py run FILE`."""

import os
import sys

if not __package__:
    # Run by its path: this directory is no place to import from, its modules would hide others.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    sys.path.insert(0, os.path.dirname(here))

from pyspark_jetstream.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
