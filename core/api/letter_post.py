"""Dead letters to the node that leads their stream, one request for each run of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from core.api.asking import Asking
from core.api.places import Places
from core.jetstream.dead_letters.boxes import Boxes
from core.jetstream.dead_letters.parcel import Taken, packed, unpacked
from core.model.api_errors import api_error

if TYPE_CHECKING:
    from core.stream.copying import Run

_LETTERS = b"LETTERS"


class LetterPost:
    """Sends letters, and takes those of other nodes.

    Args:
        asking: asks nodes.
        places: who leads which stream.
        boxes: store into what this node leads.
    """

    def __init__(self, asking: Asking, places: Places, boxes: Boxes) -> None:
        self._asking = asking
        self._places = places
        self._boxes = boxes
        asking.serve(_LETTERS, self._take)

    def reaches(self, name: str) -> bool:
        """Whether another node leads a stream."""
        return self._places.leader(name) is not None

    async def send(self, name: str, run: Run) -> Taken:
        """Have letters stored. Raises ApiError: nobody says whether they are."""
        link = self._places.leader(name)
        if link is None:
            raise api_error("JSClusterNotAvail")
        answers = await self._asking.ask(_LETTERS, {link: packed(name, run)})
        if not answers:
            raise api_error("JSClusterNotAvail")
        return msgspec.json.decode(answers[0], type=Taken)

    async def _take(self, body: bytes) -> bytes:
        return msgspec.json.encode(await self._boxes.store_sent(*unpacked(body)))
