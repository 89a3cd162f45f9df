"""Looking at streams and messages."""

# Subject: console

import json

from tests.gateway.web import Web
from tests.support.devtools import Browser
from tests.support.eventually import eventually

_HOSTILE = "<img/src=x/onerror=alert(1)>"
_SCRIPT = b"<script>alert(1)</script><svg onload=alert(2)>\xe2\x80\xaegnp.exe"

_HELD_READS = """
  const [asked, answer] = [[], fetch];
  const reads = [];
  const looks = (path) => asked.filter((url) => url === path).length;
  window.fetch = async (url, init) => {
    asked.push(url);
    if (url.endsWith("messages:read")) await new Promise((release) => reads.push(release));
    return answer(url, init);
  };
"""
"""Holds what reads messages, and counts who looks at a path."""


def _publish(web: Web, lines: list[dict[str, object]]) -> None:
    results = web.lines("\n".join(map(json.dumps, lines)).encode()).lines()
    assert [each for each in results if "error" in each] == []


def _sequences(page: Browser) -> list[int]:
    script = "[...document.querySelectorAll('.messages .open')].map((e) => Number(e.textContent))"
    return list(page.run(script))


def test_streams_are_listed_with_their_figures(page: Browser, web: Web, at: str, name: str) -> None:
    page.go(f"{at}/streams?filter={name}")
    page.see(f"{name}.>")
    web.publish(f"{name}.a", b"x")
    web.publish(f"{name}.b", b"x")

    page.see("1 stream, 2 messages")
    page.click("link", name)

    page.see("sequences 1 to 2")
    page.see("2 subjects")
    assert page.run("document.title") == f"{name} messages · jetgate"

    web.send("POST", f"/v1/streams/{name}:purge")

    page.see("next sequence 3")


def test_an_empty_stream_teaches_its_first_line(
    page: Browser, web: Web, at: str, name: str
) -> None:
    page.go(f"{at}/streams/{name}")
    page.see(f"{name} holds no message.")
    subject = page.text(".lines pre").rpartition("/")[2]

    web.send("POST", f"/v1/subjects/{subject}", b"hello")

    page.see("hello", ".messages")


def test_the_newest_come_first_and_older_ones_by_pages(
    page: Browser, web: Web, at: str, name: str
) -> None:
    _publish(web, [{"subject": f"{name}.{i % 2}", "text": f"n{i}"} for i in range(1, 121)])
    for seq in (100, 101, 118):
        web.delete(f"/v1/streams/{name}/messages/{seq}")
    there = [seq for seq in range(120, 0, -1) if seq not in (100, 101, 118)]
    page.go(f"{at}/streams/{name}")

    eventually(lambda: _sequences(page) == there[:50])
    page.key("]")
    eventually(lambda: _sequences(page) == there[50:100])
    page.click("button", "Older")
    eventually(lambda: _sequences(page) == there[100:])
    page.click("button", "← Newer")
    eventually(lambda: _sequences(page) == there[50:100])
    page.call("Page.reload")
    eventually(lambda: _sequences(page) == there[50:100])
    page.click("button", "Newest")
    web.publish(f"{name}.0", b"late")
    page.click("button", "1 message since then")
    page.see("late", ".messages")


def test_a_page_that_is_being_read_is_not_read_again(
    page: Browser, web: Web, at: str, name: str
) -> None:
    """Whoever has taken a row of it would lose the focus."""
    _publish(web, [{"subject": f"{name}.a", "text": "x"}])
    page.call("Page.addScriptToEvaluateOnNewDocument", source=_HELD_READS)
    page.go(f"{at}/streams/{name}")

    eventually(lambda: page.run(f"looks('/v1/streams/{name}') > 2"))
    page.run("reads.forEach((release) => release())")
    eventually(lambda: _sequences(page) == [1])
    assert page.run("reads.length") == 1


def test_a_subject_and_a_time_choose_messages(page: Browser, web: Web, at: str, name: str) -> None:
    _publish(web, [{"subject": f"{name}.rare", "text": "first"}])
    _publish(web, [{"subject": f"{name}.often", "text": "x"} for _ in range(400)])
    _publish(web, [{"subject": f"{name}.rare", "text": "second"}])
    page.go(f"{at}/streams/{name}")
    page.write("Subject", f"{name}.rare", role="searchbox")
    page.key("Enter")

    eventually(lambda: _sequences(page) == [402, 1])
    page.go(f"{at}/streams/{name}?since=2999-01-01T00:00:00")
    page.see("No message matches")
    page.go(f"{at}/streams/{name}?until=2999-01-01T00:00:00&before=3")
    eventually(lambda: _sequences(page) == [3, 2, 1])


def test_a_stream_without_direct_get_is_read_too(
    page: Browser, web: Web, at: str, name: str
) -> None:
    web.json("PATCH", f"/v1/streams/{name}", {"allow_direct": False})
    _publish(web, [{"subject": f"{name}.{i % 2}", "text": f"n{i}"} for i in range(1, 81)])
    page.go(f"{at}/streams/{name}")

    eventually(lambda: _sequences(page) == list(range(80, 30, -1)))
    page.see("does not allow Direct Get")
    page.go(f"{at}/streams/{name}?subject={name}.1")
    eventually(lambda: _sequences(page) == list(range(79, 0, -2)))


def test_a_message_is_shown_digit_for_digit(page: Browser, web: Web, at: str, name: str) -> None:
    body = b'{"id": 12345678901234567890, "price": 1.50, "list": [], "text": "a:{b,"}'
    web.publish(f"{name}.a", body, Nats_H_Region="eu")
    page.go(f"{at}/streams/{name}/messages?seq=1")

    page.see(
        '"id": 12345678901234567890,\n  "price": 1.50,\n  "list": [],\n  "text": "a:{b,"', "dialog"
    )
    page.see("Region", "dialog .headers")
    page.click("radio", "Hex")
    page.see("00000000  7b 22 69 64", "dialog")
    page.click("radio", "Text")
    page.see(body.decode(), "dialog")
    page.key("Escape")
    eventually(lambda: page.text("dialog") == "" and "seq=" not in page.run("location.hash"))


def test_keys_are_enough(page: Browser, web: Web, at: str, name: str) -> None:
    _publish(web, [{"subject": f"{name}.a", "text": f"n{i}"} for i in range(1, 4)])
    page.go(f"{at}/streams/{name}")
    eventually(lambda: _sequences(page) == [3, 2, 1])

    page.run("document.querySelector('.messages .open').focus()")
    page.key("ArrowDown")
    assert page.run("document.activeElement.textContent") == "2"
    page.key("Enter")
    page.see(f"{name} 2", "dialog")
    page.click("button", "← Older")
    page.see("n1", "dialog")
    page.see(f"{name} 1", "dialog h2")
    page.key("Escape")
    page.key("/")
    assert page.run("document.activeElement.labels[0].textContent") == "Subject"
    page.run("document.activeElement.blur()")
    page.key("?")
    page.see("publish a message", "dialog")


def test_markup_in_stored_data_stays_text(page: Browser, web: Web, at: str, name: str) -> None:
    header = {"X-Evil": "<script>alert(3)</script>", "__proto__": "<b>"}
    entry: dict[str, object] = {
        "subject": f"{name}.{_HOSTILE}",
        "text": _SCRIPT.decode(),
        "headers": header,
    }
    _publish(web, [entry])
    web.json("PUT", "/v1/streams/<svg", {"subjects": ["<svg"]})
    for view in ("", "/live?from=all", "/replay?seq=1&pace=0", "/subjects"):
        page.go(f"{at}/streams/{name}{view}")
        page.see(_HOSTILE, "main table")
    page.go(f"{at}/streams/{name}/messages?seq=1")
    page.see("<script>alert(3)</script>", "dialog .headers")
    page.see("⟨202E⟩gnp.exe", "dialog pre")
    page.go(f"{at}/streams/%3Csvg")
    page.click("button", "Delete…")
    page.see("The stream <svg goes", "dialog")
    page.click("button", "Delete <svg")
    page.see("The stream <svg was deleted.")

    assert page.run("document.querySelectorAll('img, svg, script:not([src])').length") == 0


def test_a_resource_that_is_gone_shows_a_hint(page: Browser, at: str) -> None:
    page.go(f"{at}/streams/GONE/messages")

    page.see("stream not found")
    page.click("link", "Back to the list")
    page.find("heading", "Streams")


def test_the_server_shows_how_it_is(page: Browser, at: str) -> None:
    page.go(f"{at}/server")

    page.see("ready: all streams are led")
    page.see("Connections")
    page.see("99 of 100 within")
    page.see("API level")
