"""Publishing, and changing what is there."""

# Subject: console

from tests.gateway.web import Web
from tests.support.devtools import Browser
from tests.support.eventually import eventually


def test_a_message_is_published_and_its_place_shown(
    page: Browser, web: Web, at: str, name: str
) -> None:
    page.go(f"{at}/streams/{name}")
    page.find("heading", "Streams /")
    page.key("p")
    page.write("Subject", f"{name}.new")
    page.choose("Payload is", "json")
    page.write("Payload", '{"id": 7')
    page.write("Headers", "Region: eu\nRegion: us\nX-Case: kept")
    page.write("Message id", "m-1")
    page.click("button", "Publish")
    page.see("The payload is no JSON", "dialog")
    page.write("Payload", '{"id":   12345678901234567890}')
    page.click("button", "Publish")

    page.see("Stored durably as", "dialog")
    found = web.get(f"/v1/streams/{name}/messages/1", Accept="application/json").json()
    assert found["headers"] == {"Region": ["eu", "us"], "X-Case": ["kept"], "Nats-Msg-Id": ["m-1"]}
    assert web.get(f"/v1/streams/{name}/messages/1").body == b'{"id":   12345678901234567890}'
    page.click("button", "Publish")
    page.see("Known already by its message id", "dialog")
    page.click("link", f"{name} 1")
    page.see("12345678901234567890", "dialog pre")


def test_a_refusal_shows_a_hint(page: Browser, web: Web, at: str, name: str) -> None:
    web.publish(f"{name}.a", b"1")
    page.go(f"{at}/streams/{name}")
    page.click("button", "Publish")
    page.write("Subject", f"{name}.a")
    page.write("Payload", "2")
    page.write("Expected last sequence", "7")
    page.click("button", "Publish")

    page.see("wrong last sequence: 1", "dialog")
    page.see("Another message came in between", "dialog")
    page.write("Expected last sequence", "1")
    page.click("button", "Publish")
    page.see("Stored durably as", "dialog")
    page.write("Subject", "nobody.stores.this")
    page.click("button", "Publish")
    page.see("Create a stream that has this subject", "dialog")


def test_a_message_is_published_again(page: Browser, web: Web, at: str, name: str) -> None:
    web.publish(f"{name}.a", b"\x00\xff bytes", Nats_Msg_Id="once", Nats_H_Region="eu")
    page.go(f"{at}/streams/{name}/messages?seq=1")
    page.click("button", "Publish again…")
    page.click("button", "Publish")
    page.see("Stored durably as", "dialog:last-of-type")

    again = web.get(f"/v1/streams/{name}/messages/2")
    assert again.body == b"\x00\xff bytes"
    assert (again.headers["nats-h-region"], again.headers["nats-msg-id"]) == ("eu", None)


def test_a_stream_is_made_changed_purged_and_deleted(page: Browser, web: Web, at: str) -> None:
    page.go(f"{at}/streams")
    page.click("button", "New stream…")
    page.write("Name", "MADE")
    page.write("Subjects", "made.>\nalso.made")
    page.write("Longest age", "7 days")
    page.click("button", "Create")
    page.see("Longest age: a time such as", "dialog")
    page.write("Longest age", "7d")
    page.click("button", "Create")
    page.see("MADE holds no message.")
    web.publish("made.1", b"x")
    web.publish("made.2", b"x")
    page.see("2 messages", ".summary")
    page.click("button", "Edit…")
    page.write("Most messages", "1000")
    page.click("button", "Change MADE")
    eventually(lambda: page.text("dialog") == "")

    config = web.get("/v1/streams/MADE").json()["config"]
    assert (config["max_age"], config["max_msgs"]) == (7 * 86_400 * 10**9, 1000)
    assert (config["subjects"], config["allow_direct"]) == (["made.>", "also.made"], True)
    page.click("button", "Purge…")
    page.write("Only of the subject", "made.1")
    page.click("button", "Purge MADE")
    page.see("1 message", ".summary")
    page.click("button", "Delete…")
    page.see("The stream MADE goes, with its 1 message", "dialog")
    page.click("button", "Cancel")
    assert web.get("/v1/streams/MADE").status == 200
    page.click("button", "Delete…")
    page.click("button", "Delete MADE")
    page.see("The stream MADE was deleted.")
    assert web.get("/v1/streams/MADE").status == 404


def test_a_consumer_is_made_asked_paused_and_deleted(
    page: Browser, web: Web, at: str, name: str
) -> None:
    web.publish(f"{name}.a", b"first")
    web.publish(f"{name}.a", b"second")
    page.go(f"{at}/streams/{name}/consumers")
    page.see(f"{name} has no consumer.")
    page.click("button", "New consumer…")
    page.write("Name", "billing")
    page.click("button", "Create")
    page.click("button", "Next message")
    page.see("delivery 1, 1 message behind it", ".deliveries")
    page.click("button", "Ack")
    page.see("acknowledged", ".deliveries")
    info = f"/v1/streams/{name}/consumers/billing"
    assert web.get(info).json()["ack_floor"]["stream_seq"] == 1
    page.click("button", "Next message")
    page.see("second", ".deliveries")
    page.click("button", "Give back")
    page.see("given back", ".deliveries")
    page.click("button", "Pause…")
    page.click("button", "Pause billing")
    page.click("button", "Resume")
    page.see("billing delivers again.")
    assert "paused" not in web.get(info).json()
    page.click("button", "Delete consumer…")
    page.see("it remembers of deliveries", "dialog")
    page.click("button", "Delete billing")
    page.see("The consumer billing was deleted.")
    assert web.get(info).status == 404


def test_keys_of_a_bucket(page: Browser, web: Web, at: str) -> None:
    page.go(f"{at}/kv")
    page.click("button", "New bucket…")
    page.write("Name", "console")
    page.write("Revisions kept of each key", "5")
    page.click("button", "Create")
    page.see("No key has a value.")
    page.click("button", "Put…")
    page.write("Key", "colors/sky")
    page.write("Value", "blue")
    page.click("button", "Put")
    page.click("button", "colors/sky")
    page.see("blue", "dialog pre")
    page.click("button", "Change…")
    page.write("Value", "grey")
    web.send("PUT", "/v1/kv/console/colors%2Fsky", b"somebody else's")
    page.click("button", "Put")
    page.see("the current revision is 2", "dialog:last-of-type")
    page.click("button", "Cancel")
    page.key("Escape")
    page.click("button", "colors/sky")
    page.see("somebody else's", "dialog pre")
    page.see("blue", "dialog [aria-label=History]")
    page.click("button", "Delete…")
    page.click("button", "Delete colors/sky")
    page.see("No key has a value.")
    assert web.get("/v1/kv/console/colors%2Fsky").kind == "key-not-found"
    page.click("button", "Delete…")
    page.click("button", "Delete console")
    page.see("The bucket console was deleted.")


def test_objects_are_listed_to_be_downloaded(page: Browser, web: Web, at: str) -> None:
    web.json("PUT", "/v1/objects/pictures", {})
    web.send("PUT", "/v1/objects/pictures/a%2F%3Cb%3E.png", b"not a picture")
    page.go(f"{at}/objects")
    page.click("link", "pictures")

    page.see("a/<b>.png")
    page.find("link", "Download a/<b>.png")
    target = page.run("document.querySelector('main td a').getAttribute('href')")
    assert web.get(target).body == b"not a picture"
    web.delete("/v1/objects/pictures")
