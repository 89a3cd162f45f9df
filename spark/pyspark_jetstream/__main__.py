"""Entry point of `python -m pyspark_jetstream` and of `spark-submit .../__main__.py run FILE`."""

import os
import sys

if not __package__:
    # Run by path, Python puts this directory into sys.path, where its modules hide others of the
    # same names.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    sys.path.insert(0, os.path.dirname(here))

from pyspark_jetstream.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
