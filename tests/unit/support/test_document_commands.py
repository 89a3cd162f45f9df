"""Which blocks of a document have commands, and which of them are marked."""

# Subject: tests

from pathlib import Path

from tests.support.document_commands import blocks_of

_PAGE = """\
Text with `jetgate dev` in it.

    curl -d '{}' \\
         localhost
    {"seq": 1}

<!-- not run: it takes an hour -->

    $ python -m bench
    what it prints

A mark is of the next block alone.

    $ jetgate version

    {"no": "command"}

    for await (const message of messages) break;

```sh
TAG=$(date)
```

```python
import jetgate
```
"""


def test_blocks_of_commands_are_found_with_their_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(_PAGE)

    found = [
        (block.place, block.commands[0].split()[0], block.reason)
        for block in blocks_of(page, "page.md")
    ]

    assert found == [
        ("page.md:3", "curl", ""),
        ("page.md:9", "python", "it takes an hour"),
        ("page.md:14", "jetgate", ""),
        ("page.md:20", "TAG=$(date)", ""),
    ]
