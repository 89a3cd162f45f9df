"""What is run of a document, in which order, and what is not."""

# Subject: tests

from pathlib import Path

from tests.support.shell_blocks import Block, Documents, Instead

_FIRST = """\
# A page

```sh
one
two
```

<!-- ends with 1 -->
```console
$ three
what three prints
$ four
```

<!-- run: second.md, absent.md -->

<!-- not run: there is no fifth; instead: do it by hand -->
```sh
five
```

<!-- instead: rest -->
```yaml
six: 6
```
"""
_SECOND = """\
<!-- not run: nobody has it -->
```sh
seven
```
```sh
eight
```
"""


def test_blocks_come_in_order_with_what_is_done_instead(tmp_path: Path) -> None:
    (tmp_path / "first.md").write_text(_FIRST)
    (tmp_path / "second.md").write_text(_SECOND)
    documents = Documents()

    steps = list(documents.steps(tmp_path / "first.md"))

    assert steps == [
        Block("first.md:3", "one\ntwo\n"),
        Block("first.md:9", "three\nfour\n", 1),
        Block("second.md:5", "eight\n"),
        Instead("first.md:17", "do it by hand"),
        Instead("first.md:22", "rest"),
    ]
    assert documents.not_run == {
        "second.md:2": "nobody has it",
        "first.md:18": "there is no fifth",
    }
    assert [path.name for path in documents.seen] == ["first.md", "second.md"]
