"""Streams that tests of Spark fill and change, over the NATS port of the server."""

from collections.abc import Sequence
from itertools import count
from typing import Any, Self

from core.errors import OperatorError
from core.storage.postgres.embedded.running import running_dsn
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

SECRET = "s3cret-that-nobody-may-see"
DSN, TOKEN = "TESTS_SPARK_DSN", "TESTS_SPARK_TOKEN"
"""Where tasks find the server's connection string with SECRET as its password, and SECRET."""

_names = count(1)


def dsn_of(server: JetgateServer) -> str:
    """The connection string of a server's database, once it runs."""

    def look() -> str:
        try:
            return running_dsn(server.data)
        except OperatorError:
            return ""

    return eventually(look)


class Feed:
    """A stream of its own name and subjects, deleted at the end.

    Args:
        server: Where it is.
        config: Of the stream, over the name, the subjects `<name>.>` and permission to delete.
    """

    def __init__(self, server: JetgateServer | NatsServer, **config: Any) -> None:
        self.name = f"FEED{next(_names)}"
        self._wire = Wire(server.address)
        self._wire.hello()
        self._config = {
            "name": self.name,
            "subjects": [f"{self.name}.>"],
            "allow_direct": True,
            "storage": "file",
            **config,
        }

    def __enter__(self) -> Self:
        self.create()
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()
        self.close()

    def beside(self, server: JetgateServer | NatsServer) -> "Feed":
        """The same stream over a connection of its own, for another thread; `close` it."""
        made = Feed(server)
        made.name = self.name
        return made

    def close(self) -> None:
        """Close the connection; the stream stays."""
        self._wire.close()

    def reconnect(self, server: JetgateServer | NatsServer) -> None:
        """Connect again, for the server was started again."""
        self._wire.close()
        self._wire = Wire(server.address)
        self._wire.hello()

    def create(self) -> None:
        """Create the stream; at first, or again after `delete`."""
        self._api(f"STREAM.CREATE.{self.name}", self._config)

    def delete(self) -> None:
        """Delete the stream."""
        self._wire.api(f"STREAM.DELETE.{self.name}")

    def put(self, *subjects: str, payload: bytes = b"", headers: bytes = b"") -> list[int]:
        """Publish a message to each subject, below the stream's name; their sequences.

        The payload is that of all of them; without one it is the subject.
        """
        return self.publish([(one, payload or one.encode(), headers) for one in subjects])

    def publish(self, messages: Sequence[tuple[str, bytes, bytes]]) -> list[int]:
        """Publish (subject, payload, block of headers) and wait for the acks; their sequences."""
        inbox = b"_INBOX.feed.%d" % next(_names)
        self._wire.send(b"SUB %s acks\r\n" % inbox)
        sent = bytearray()
        for subject, payload, headers in messages:
            name = f"{self.name}.{subject}".encode()
            total = len(headers) + len(payload)
            if headers:
                sent += b"HPUB %s %s %d %d\r\n" % (name, inbox, len(headers), total)
            else:
                sent += b"PUB %s %s %d\r\n" % (name, inbox, total)
            sent += headers + payload + b"\r\n"
        self._wire.send(bytes(sent))
        acks = [self._wire.frame().json() for _ in messages]
        self._wire.send(b"UNSUB acks\r\n")
        assert not [ack for ack in acks if "error" in ack], acks
        return [int(ack["seq"]) for ack in acks]

    def remove(self, *seqs: int) -> None:
        """Delete single messages."""
        for seq in seqs:
            self._api(f"STREAM.MSG.DELETE.{self.name}", {"seq": seq, "no_erase": True})

    def purge(self, **request: Any) -> None:
        """Purge the stream, or what the request names."""
        self._api(f"STREAM.PURGE.{self.name}", request)

    def consumer(self, name: str) -> None:
        """Create a durable pull consumer."""
        config = {"durable_name": name, "ack_policy": "explicit"}
        request = {"stream_name": self.name, "config": config}
        self._api(f"CONSUMER.CREATE.{self.name}.{name}", request)

    def info(self) -> dict[str, Any]:
        """The state of the stream."""
        state: dict[str, Any] = self._api(f"STREAM.INFO.{self.name}")["state"]
        return state

    def _api(self, subject: str, body: Any = None) -> Any:
        answer = self._wire.api(subject, body)
        assert "error" not in answer, answer
        return answer
