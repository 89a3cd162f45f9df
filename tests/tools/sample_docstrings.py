"""Prints random docstrings for a review: `python -m tests.tools.sample_docstrings --seed 7`.

The reader knows NATS and Python but not this code, and judges whether each docstring is clear at
first reading. All docstrings of the product are equally likely.
"""

import argparse
import ast
import random

from tests.tools.docstrings import ROOT, Docstring, docstrings, files


def signature(docstring: Docstring) -> str:
    """Return the signature of a docstring's function or class on one line.

    `name(arguments) -> result` for a function, after its decorators; `class name(bases)` for a
    class; empty for a module.
    """
    for node in ast.walk(ast.parse((ROOT / docstring.path).read_text())):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.body[0].lineno != docstring.line:
            continue
        line = "".join(f"@{ast.unparse(each)} " for each in node.decorator_list)
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(each) for each in (*node.bases, *node.keywords)]
            return f"{line}class {node.name}({', '.join(bases)})".removesuffix("()")
        line += "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{line}{node.name}({ast.unparse(node.args)}){result}"
    return ""


def main() -> None:
    """Print the drawn docstrings, each with its path, line, name and signature."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="which are drawn (1)")
    parser.add_argument("--count", type=int, default=60, help="how many (60)")
    parser.add_argument("places", nargs="*", help="folders or files; all of the product")
    options = parser.parse_args()
    found = [each for path in files(*options.places) for each in docstrings(path)]
    drawn = random.Random(options.seed).sample(found, min(options.count, len(found)))
    for number, each in enumerate(drawn, 1):
        print(f"--- {number}. {each.path}:{each.line} {each.name or '(module)'}")
        print(*filter(None, (signature(each), each.text)), sep="\n", end="\n\n")
    print(f"{len(drawn)} of {len(found)} docstrings, seed {options.seed}")


if __name__ == "__main__":
    main()
