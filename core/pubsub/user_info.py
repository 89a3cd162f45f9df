"""`$SYS.REQ.USER.INFO`: a client asks who the server takes it for."""

from typing import TYPE_CHECKING

import msgspec

from core.model.gotime import format_time
from core.model.versions import SERVER_VERSION
from core.pubsub.route import Session

if TYPE_CHECKING:
    from core.pubsub.account import Account

SUBJECT = b"$SYS.REQ.USER.INFO"
_JETSTREAM_FLAGS = 7


def answer_user_info(account: "Account") -> None:
    """Serve the subject in an account."""
    asked = 0

    def answer(
        session: Session | None, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        nonlocal asked
        if not reply:
            return
        asked += 1
        hub = account.hub
        server = {
            "name": hub.server_name,
            "host": hub.host,
            "id": hub.server_id,
            "ver": SERVER_VERSION,
            "jetstream": hub.jetstream,
            "flags": _JETSTREAM_FLAGS,
            "seq": asked,
            "time": format_time(hub.clock.now()),
        }
        user = {"user": "", "account": account.name, "account_name": account.name}
        account.publish(reply, b"", b"", msgspec.json.encode({"server": server, "data": user}))

    account.subscribe(SUBJECT, answer)
