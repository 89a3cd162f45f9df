"""What the player of transcripts lets pass, and what it does not."""

# Subject: tests

from pathlib import Path

import pytest

from tests.wire import transcript
from tests.wire.transcript import (
    TRIES,
    Mismatch,
    Player,
    Step,
    is_hurried,
    parse,
    play_file,
    stream_config,
)


class Nobody:
    """A server that is never asked."""

    address = ("127.0.0.1", 0)

    def await_removal(self) -> None:
        """Nothing was deleted."""


@pytest.mark.parametrize(("line", "plays"), [("", 1), ("= hurried\n", TRIES)])
def test_only_where_time_plays_a_part_a_transcript_may_fail(
    line: str, plays: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.txt"
    path.write_text(f"# What it shows.\n{line}\n@a\n> PING\n< PONG\n")
    played: list[list[Step]] = []

    def play(player: Player, steps: list[Step]) -> None:
        played.append(steps)
        raise Mismatch("too late")

    monkeypatch.setattr(Player, "play", play)
    monkeypatch.setattr(transcript, "clean", Nobody.await_removal)
    with pytest.raises(Mismatch):
        play_file(path, Nobody(), TRIES if is_hurried(path) else 1)

    assert len(played) == plays


def test_lines_that_are_to_match_at_last_follow_at_once() -> None:
    assert [step.kind for step in parse("= eventually\n> PING\n< PONG\n")] == [
        "eventually",
        "send",
        "expect",
    ]
    with pytest.raises(ValueError, match="line 2: there is nothing to play again"):
        parse("= eventually\n\n> PING\n< PONG\n")


def test_a_used_stream_has_the_subjects_of_its_name_and_the_given_members() -> None:
    assert stream_config("@use stream S") == {"name": "S", "subjects": ["s.>"]}
    assert stream_config('@use stream T {"max_msgs":1}') == {
        "name": "T",
        "subjects": ["t.>"],
        "max_msgs": 1,
    }
    assert [step.kind for step in parse("@a\n> PING\n< PONG\n@use stream S\n> PING\n")] == [
        "send",
        "expect",
        "use",
        "send",
    ]


@pytest.mark.parametrize("line", ["@use S", "@use stream", "@use stream S max_msgs", "@use kv B"])
def test_a_use_of_anything_but_a_stream_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a stream to use"):
        parse(line)


@pytest.mark.parametrize("line", ["= later", "=eventually", "= eventually "])
def test_a_directive_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="line 1 is neither"):
        parse(line)
