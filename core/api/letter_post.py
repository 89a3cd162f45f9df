"""Sending dead letters to the node that leads their stream, one request per run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from core.api.asking import Asking
from core.api.places import Places
from core.jetstream.dead_letters.boxes import Boxes
from core.jetstream.dead_letters.parcel import Taken, packed, unpacked
from core.model.api_errors import api_error

if TYPE_CHECKING:
    from core.rules.stream.plans.sourced import Run

_LETTERS = b"LETTERS"


class LetterPost:
    """Sends letters to other nodes, and stores letters that other nodes send.

    Args:
        asking: Sends requests to nodes.
        places: Finds the leader of a stream.
        boxes: Stores letters in the streams that this node leads.
    """

    def __init__(self, asking: Asking, places: Places, boxes: Boxes) -> None:
        self._asking = asking
        self._places = places
        self._boxes = boxes
        asking.serve(_LETTERS, self._take)

    def reaches(self, name: str) -> bool:
        """Return whether another node leads a stream."""
        return self._places.leader(name) is not None

    async def send(self, name: str, run: Run) -> Taken:
        """Send a run and return its outcome.

        Raises ApiError JSClusterNotAvail without a leader or a timely answer.
        """
        link = self._places.leader(name)
        if link is None:
            raise api_error("JSClusterNotAvail")
        answers = await self._asking.ask(_LETTERS, {link: packed(name, run)})
        if not answers:
            raise api_error("JSClusterNotAvail")
        return msgspec.json.decode(answers[0], type=Taken)

    async def _take(self, body: bytes) -> bytes:
        return msgspec.json.encode(await self._boxes.store_sent(*unpacked(body)))
