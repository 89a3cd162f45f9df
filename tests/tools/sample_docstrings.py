"""Docstrings drawn at random for a reader: `python -m tests.tools.sample_docstrings --seed 7`.

The reader knows NATS and Python but not this code, and judges whether each docstring is clear at
first reading. All docstrings of the product are equally likely.
"""

import argparse
import random

from tests.tools.docstrings import docstrings, files


def main() -> None:
    """Print the drawn docstrings, each with its place and its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which are drawn (1)")
    parser.add_argument("--count", type=int, default=60, help="how many (60)")
    parser.add_argument("places", nargs="*", help="folders or files; all of the product")
    options = parser.parse_args()
    found = [each for path in files(*options.places) for each in docstrings(path)]
    drawn = random.Random(options.seed).sample(found, min(options.count, len(found)))
    for number, each in enumerate(drawn, 1):
        print(f"--- {number}. {each.path}:{each.line} {each.name or '(module)'}\n{each.text}\n")
    print(f"{len(drawn)} of {len(found)} docstrings, seed {options.seed}")


if __name__ == "__main__":
    main()
