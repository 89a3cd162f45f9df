"""The AsyncAPI document: feeds of the route table, frames of another table."""

from typing import Any, Literal

from msgspec import Struct

from gateway.contract.asyncapi import Frame, document
from gateway.routes import ROUTES


class Subscribe(Struct, tag_field="op", tag="sub"):
    """Begin a feed."""

    subject: str


class Delivery(Struct, tag_field="op", tag="msg"):
    """A message of a feed."""

    position: str
    state: Literal["new", "again"]


def test_every_feed_of_the_route_table_is_a_channel() -> None:
    found = document(ROUTES, "1")

    assert set(found["channels"]) == {row.id for row in ROUTES if row.events is not None}
    watch = found["channels"]["watchKeys"]
    assert watch["address"] == "/v1/kv/{bucket}:watch"
    assert set(watch["parameters"]) == {"bucket"}
    assert {"Opened", "Ready", "KvChange", "Ended"} == set(watch["messages"])
    assert "last_event_id" in watch["x-request"]["query"]["properties"]


def test_frames_are_messages_of_one_channel() -> None:
    found = document((), "1", (Frame(Subscribe, "receive"), Frame(Delivery, "send")))

    channel = found["channels"]["socket"]
    assert channel["address"] == "/v1/ws"
    assert set(channel["messages"]) == {"Subscribe", "Delivery"}
    assert _given(found, "receiveFrames") == ["Subscribe"]
    assert _given(found, "sendFrames") == ["Delivery"]
    schemas = found["components"]["schemas"]
    assert schemas["Subscribe"]["properties"]["op"] == {"enum": ["sub"], "type": "string"}
    assert schemas["Delivery"]["required"] == ["op", "position", "state"]
    assert found["components"]["messages"]["Delivery"]["summary"] == "A message of a feed."


def _given(found: dict[str, Any], operation: str) -> list[str]:
    references = found["operations"][operation]["messages"]
    return [each["$ref"].rpartition("/")[2] for each in references]
