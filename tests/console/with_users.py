"""The command `jetgate` with two users: `me` may do everything, `ann` may only look.

The command itself has flags for one user alone.
"""

from core.auth.users import Permissions, Rule, User, Users
from jetgate import serve
from jetgate.console import main

_ANN = ("$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.*", "orders.ann")
_USERS = Users(
    users=(
        User("me", "secret"),
        User("ann", "pass:word", Permissions(publish=Rule(allow=_ANN))),
    )
)

if __name__ == "__main__":
    serve.users_of = lambda *_: _USERS  # type: ignore[attr-defined]  # in the place of the flags
    main()
