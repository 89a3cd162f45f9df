"""Sending of dead letters to the node that leads the dead-letter stream, one request per batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from core.api.peer_requests import PeerRequests
from core.api.request_routing import RequestRouting
from core.jetstream.dead_letters.local_streams import LocalDeadLetterStreams
from core.jetstream.dead_letters.peer_batches import StoreOutcome, decode_batch, encode_batch
from core.model.api_errors import api_error

if TYPE_CHECKING:
    from core.rules.stream.plans.sourced import SourcedBatch

_DEAD_LETTERS = b"LETTERS"


class DeadLetterSender:
    """Sends dead letters to other nodes, and stores dead letters that other nodes send.

    A dead letter is a message that a consumer could not deliver successfully.

    Args:
        peer_requests: Sends requests to nodes.
        routing: Finds the leader of a stream.
        local: Stores dead letters in the streams that this node leads.
    """

    def __init__(
        self, peer_requests: PeerRequests, routing: RequestRouting, local: LocalDeadLetterStreams
    ) -> None:
        self._peer_requests = peer_requests
        self._routing = routing
        self._local = local
        peer_requests.handle(_DEAD_LETTERS, self._on_dead_letters)

    def reaches(self, name: str) -> bool:
        """Return whether another node leads the stream `name` and is linked to this node."""
        return self._routing.leader_of(name) is not None

    async def send(self, name: str, batch: SourcedBatch) -> StoreOutcome:
        """Send a batch of dead letters to the leader of the stream `name`; return the result.

        Raises ApiError JSClusterNotAvail if no peer leads the stream or none answers within 2 s.
        """
        link = self._routing.leader_of(name)
        if link is None:
            raise api_error("JSClusterNotAvail")
        answers = await self._peer_requests.request(
            _DEAD_LETTERS, {link: encode_batch(name, batch)}
        )
        if not answers:
            raise api_error("JSClusterNotAvail")
        return msgspec.json.decode(answers[0], type=StoreOutcome)

    async def _on_dead_letters(self, body: bytes) -> bytes:
        return msgspec.json.encode(await self._local.store_sent(*decode_batch(body)))
