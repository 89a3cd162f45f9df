"""The chat of `examples/chat` in two real browsers, over a restart of the server."""

# Subject: SDKs

from pathlib import Path

import pytest

from tests.sdks.chat import PICTURE, chat, connected, spoken_lines
from tests.support.devtools import Browser
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT

_PAGE = ROOT / "examples/chat/index.html"
_ROUNDS = 3


@pytest.mark.thorough
def test_two_browsers_talk_over_a_restart_and_nothing_is_lost_or_doubled(
    typescript_sdk: Path,
) -> None:
    with chat(typescript_sdk.parent) as talk, Browser() as ann, Browser() as bob:
        browsers = {"ann": ann, "bob": bob}
        for name, browser in browsers.items():
            connected(talk, browser, name)
            browser.run("globalThis.neverLoadedAgain = true")
        expected: set[str] = set()

        def everyone_says(when: str) -> None:
            for number in range(_ROUNDS):
                for name, browser in browsers.items():
                    browser.enter(f"{when} {number}")
                    expected.add(f"{name}: {when} {number}")

        def all_is_seen_once() -> bool:
            seen = [spoken_lines(browser) for browser in browsers.values()]
            assert sorted(seen[0]) == sorted(expected)
            return seen[0] == seen[1]

        everyone_says("before")
        eventually(all_is_seen_once)
        talk.server.kill()
        everyone_says("without a server")
        assert len(spoken_lines(ann)) == len(spoken_lines(bob)) == 2 * _ROUNDS
        talk.server.start()
        everyone_says("after")
        eventually(all_is_seen_once, within=60)
        for browser in browsers.values():
            assert browser.run("document.querySelectorAll('.sending, .gap').length") == 0
            assert browser.run("globalThis.neverLoadedAgain") is True


def test_the_page_is_short_and_its_readme_leads_to_it() -> None:
    readme = (_PAGE.parent / "README.md").read_text()

    assert len(_PAGE.read_text().splitlines()) <= 100
    assert "npm install --prefix sdks/typescript" in readme
    assert "jetgate dev --http-cors-origin http://localhost:8000" in readme
    assert "http://localhost:8000/examples/chat/" in readme
    assert 'from "../../sdks/typescript/dist/index.js"' in _PAGE.read_text()


def test_its_picture_is_small() -> None:
    assert PICTURE.read_bytes().startswith(b"\x89PNG")
    assert 20_000 < PICTURE.stat().st_size < 100_000
