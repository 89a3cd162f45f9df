"""Following a stream, and playing it again."""

# Subject: console

import json

from tests.gateway.web import Web
from tests.support.devtools import Browser
from tests.support.eventually import eventually


def _publish(web: Web, name: str, texts: list[str]) -> None:
    lines = [json.dumps({"subject": f"{name}.a", "text": text}) for text in texts]
    results = web.lines("\n".join(lines).encode()).lines()
    assert [each for each in results if "error" in each] == []


def _sequences(page: Browser) -> list[int]:
    script = "[...document.querySelectorAll('.messages .open')].map((e) => Number(e.textContent))"
    return list(page.run(script))


def test_messages_are_shown_as_they_come(page: Browser, web: Web, at: str, name: str) -> None:
    _publish(web, name, ["before"])
    page.go(f"{at}/streams/{name}/live")
    page.see("Following since")
    _publish(web, name, ["one", "two"])
    page.see("two", ".messages")
    assert _sequences(page) == [3, 2]

    page.click("button", "Pause")
    page.see("Paused.")
    _publish(web, name, ["three", "four"])
    page.click("button", "Resume")
    eventually(lambda: _sequences(page) == [5, 4, 3, 2])
    page.click("button", "Open message 4")
    page.see("three", "dialog pre")


def test_the_view_keeps_some_hundred_rows_however_many_come(
    page: Browser, web: Web, at: str, name: str
) -> None:
    page.go(f"{at}/streams/{name}/live?from=all")
    page.see("Following since")
    for _ in range(3):
        _publish(web, name, ["x"] * 1000)

    eventually(lambda: _sequences(page)[:1] == [3000])
    assert len(_sequences(page)) == 500
    page.see("3,000 messages")


def test_a_work_queue_is_followed_without_taking_from_it(page: Browser, web: Web, at: str) -> None:
    config = {"subjects": ["QUEUE.>"], "retention": "workqueue"}
    assert web.json("PUT", "/v1/streams/QUEUE", config).status == 201
    page.go(f"{at}/streams/QUEUE/live?from=all")
    page.see("Every second the stream is looked at")
    _publish(web, "QUEUE", ["job"])

    page.see("job", ".messages")
    assert web.get("/v1/streams/QUEUE").json()["state"]["messages"] == 1
    web.delete("/v1/streams/QUEUE")


def test_a_stream_is_played_again_at_once(page: Browser, web: Web, at: str, name: str) -> None:
    _publish(web, name, [f"n{i}" for i in range(1, 601)])
    page.go(f"{at}/streams/{name}/replay")
    page.write("From sequence", "2")
    page.choose("Pace", "0")
    page.click("button", "Replay")

    page.see("The view is full after 500 messages; sequence 502 would be next.")
    page.click("button", "Next 500")
    page.see("This was the end: 599 messages.")
    assert _sequences(page)[0] == 600
    page.click("link", "Follow what comes from now on")
    page.see("Following since")


def test_a_stream_is_played_again_at_its_own_pace(
    page: Browser, web: Web, at: str, name: str
) -> None:
    """Two messages that were stored so far apart that nobody waits as long."""
    _publish(web, name, ["first"])
    first = web.get(f"/v1/streams/{name}/messages/1").headers["nats-time-stamp"]
    page.go(at)
    shown = page.run(f"Date.parse('{first}')")
    _publish(web, name, ["second"])
    # The page is given another time of the first message: one hour earlier.
    earlier = page.run(f"new Date({shown} - 3600_000).toISOString()")
    page.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source=f"""
        const real = window.fetch;
        window.fetch = async (...args) => {{
          const answer = await real(...args);
          if (!String(args[0]).includes("messages:read")) return answer;
          const text = await answer.text();
          return new Response(text.replace({json.dumps(first)}, {json.dumps(earlier)}), answer);
        }};""",
    )
    page.go("about:blank")
    page.go(f"{at}/streams/{name}/replay?seq=1")

    page.see("is next in 1 h")
    assert _sequences(page) == [1]
    page.click("button", "Skip the wait")
    page.see("This was the end: 2 messages.")
    assert _sequences(page) == [2, 1]
