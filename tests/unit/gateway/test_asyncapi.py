"""The AsyncAPI document: feeds of the route table, frames of another table."""

# Subject: HTTP, HTTP contract

from typing import Any, Literal

from msgspec import Struct

from gateway.contract.asyncapi import document
from gateway.contract.frames import Frame
from gateway.routes import ROUTES


class Subscribe(Struct, tag="sub"):
    """Begin a feed."""

    subject: str


class Delivery(Struct, tag="msg"):
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
    assert set(channel["messages"]) == {"SubscribeFrame", "DeliveryFrame"}
    assert _given(found, "receiveFrames") == ["SubscribeFrame"]
    assert _given(found, "sendFrames") == ["DeliveryFrame"]
    schemas = found["components"]["schemas"]
    assert schemas["SubscribeFrame"]["properties"]["type"] == {"enum": ["sub"], "type": "string"}
    assert schemas["DeliveryFrame"]["required"] == ["type", "position", "state"]
    assert found["components"]["messages"]["DeliveryFrame"]["summary"] == "A message of a feed."


def _given(found: dict[str, Any], operation: str) -> list[str]:
    references = found["operations"][operation]["messages"]
    return [each["$ref"].rpartition("/")[2] for each in references]
