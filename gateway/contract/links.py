"""OpenAPI links: follow-up operations whose parameters are values of a response.

The key of the table is (operation id, HTTP status). Parameter values are OpenAPI runtime
expressions.
"""

from typing import Any

_BODY = "$response.body#/"
_PATH = "$request.path."


def _link(operation: str, text: str, **parameters: str) -> dict[str, Any]:
    return {"operationId": operation, "description": text, "parameters": parameters}


_STREAM = {"stream": _BODY + "config/name"}
_CONSUMER = {"stream": _BODY + "stream_name", "consumer": _BODY + "name"}
_MESSAGE = {"stream": _BODY + "stream", "seq": _BODY + "seq"}
_BUCKET = {"bucket": _BODY + "bucket"}
_KEY = {"bucket": _BODY + "bucket", "key": _BODY + "key"}
_FETCHED = {"stream": _PATH + "stream", "consumer": _PATH + "consumer"}

_STREAM_LINKS = {
    "read": _link("readStream", "The stream.", **_STREAM),
    "change": _link("patchStream", "Change it.", **_STREAM),
    "delete": _link("deleteStream", "Delete it.", **_STREAM),
    "purge": _link("purgeStream", "Remove its messages.", **_STREAM),
    "messages": _link("findMessage", "A message of it.", **_STREAM),
    "subjects": _link("listSubjects", "List its subjects.", **_STREAM),
    "readMany": _link("readMessages", "Many messages of it.", **_STREAM),
    "consumers": _link("createConsumer", "A consumer of it.", **_STREAM),
}
_CONSUMER_LINKS = {
    "read": _link("readConsumer", "The consumer.", **_CONSUMER),
    "fetch": _link("fetchMessages", "Its next messages.", **_CONSUMER),
    "pause": _link("pauseConsumer", "Let it rest.", **_CONSUMER),
    "resume": _link("resumeConsumer", "Let it go on.", **_CONSUMER),
    "reset": _link("resetConsumer", "Let it begin again.", **_CONSUMER),
    "change": _link("patchConsumer", "Change it.", **_CONSUMER),
    "delete": _link("deleteConsumer", "Delete it.", **_CONSUMER),
}
_MESSAGE_LINKS = {
    "read": _link("readMessage", "The message.", **_MESSAGE),
    "delete": _link("deleteMessage", "Delete it.", **_MESSAGE),
}
_BUCKET_LINKS = {
    "read": _link("readKvBucket", "The bucket.", **_BUCKET),
    "change": _link("patchKvBucket", "Change it.", **_BUCKET),
    "clean": _link("cleanKvBucket", "Remove old markers.", **_BUCKET),
    "keys": _link("listKeys", "Its keys.", **_BUCKET),
    "put": _link("putKey", "Store a value in it.", **_BUCKET),
    "delete": _link("deleteKvBucket", "Delete it.", **_BUCKET),
}
_KEY_LINKS = {
    "read": _link("readKey", "The value.", **_KEY),
    "history": _link("readKeyHistory", "Its older values.", **_KEY),
    "delete": _link("deleteKey", "Delete it.", **_KEY),
    "purge": _link("purgeKey", "Delete it with its history.", **_KEY),
}
_STORE_LINKS = {
    "read": _link("readObjectStore", "The store.", **_BUCKET),
    "clean": _link("cleanObjectStore", "Remove chunks of unfinished uploads.", **_BUCKET),
    "list": _link("listObjects", "Its objects.", **_BUCKET),
    "put": _link("putObject", "Store an object in it.", **_BUCKET),
    "delete": _link("deleteObjectStore", "Delete it.", **_BUCKET),
}
_OBJECT = {"bucket": _BODY + "bucket", "name": _BODY + "name"}
_OBJECT_LINKS = {
    "read": _link("readObject", "The object.", **_OBJECT),
    "info": _link("readObjectInfo", "Information about it.", **_OBJECT),
    "change": _link("patchObject", "Change its information.", **_OBJECT),
    "delete": _link("deleteObject", "Delete it.", **_OBJECT),
}

LINKS: dict[tuple[str, int], dict[str, Any]] = {
    ("createStream", 201): _STREAM_LINKS,
    ("putStream", 201): _STREAM_LINKS,
    ("putStream", 200): _STREAM_LINKS,
    ("createConsumer", 201): _CONSUMER_LINKS,
    ("putConsumer", 201): _CONSUMER_LINKS,
    ("putConsumer", 200): _CONSUMER_LINKS,
    ("publishMessage", 201): _MESSAGE_LINKS,
    ("publishAtomic", 201): {"read": _MESSAGE_LINKS["read"]},
    ("createKvBucket", 201): _BUCKET_LINKS,
    ("putKvBucket", 201): _BUCKET_LINKS,
    ("putKvBucket", 200): _BUCKET_LINKS,
    ("createObjectStore", 201): _STORE_LINKS,
    ("putObjectStore", 201): _STORE_LINKS,
    ("putObject", 200): _OBJECT_LINKS,
    ("putObject", 201): _OBJECT_LINKS,
    ("putKey", 200): _KEY_LINKS,
    ("putKey", 201): _KEY_LINKS,
    ("fetchMessages", 200): {
        "next": _link("fetchMessages", "The messages that follow.", **_FETCHED),
    },
}
