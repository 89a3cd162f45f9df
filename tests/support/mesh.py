"""A mesh without links, for what asks one who leads."""

from collections.abc import Callable


class Mesh:
    """The links of a node, and who leads what behind them."""

    is_beginning, stood_still, nodes = False, 0, ()
    on_leader: Callable[[], None]
    on_offer: object
    on_overtaken: object

    def __init__(self) -> None:
        self.leaders: dict[int, object] = {}

    def led(self, **links: list[int]) -> None:
        self.leaders = {group: name for name, groups in links.items() for group in groups}
        self.on_leader()
