"""Where mappings send a subject, for every number that chance may bring."""

# Subject: routing

from core.pubsub.mappings import Destination, Mapping, Mappings


def drawn(mapping: Mapping, subject: bytes) -> list[bytes]:
    """What becomes of a subject for each hundredth."""
    numbers = iter(range(100))
    mappings = Mappings([mapping], lambda: next(numbers) / 100)
    return [mappings.of(subject) for _ in range(100)]


def never() -> float:
    raise AssertionError("nothing here is left to chance")


def test_a_single_destination_takes_everything() -> None:
    mappings = Mappings([Mapping("a.*", (Destination("b.$1"),))], never)

    assert [mappings.of(b"a.x"), mappings.of(b"a.x"), mappings.of(b"c")] == [b"b.x", b"b.x", b"c"]


def test_the_rest_of_a_hundred_percent_stays() -> None:
    found = drawn(Mapping("a", (Destination("b", 30), Destination("c", 20))), b"a")

    assert (found.count(b"b"), found.count(b"c"), found.count(b"a")) == (30, 20, 50)


def test_the_rest_is_lost_when_the_source_is_a_destination() -> None:
    found = drawn(Mapping("a", (Destination("a", 70), Destination("b", 10))), b"a")

    assert (found.count(b"a"), found.count(b"b"), found.count(b"")) == (70, 10, 20)


def test_the_first_that_matches_counts() -> None:
    first, second = Mapping("a.>", (Destination("x.>"),)), Mapping("a.b", (Destination("y"),))

    assert Mappings([first, second], never).of(b"a.b") == b"x.b"
    assert Mappings([second, first], never).of(b"a.b") == b"y"


def test_a_mapping_without_destinations_here_changes_nothing() -> None:
    assert Mappings([Mapping("a", ())], never).of(b"a") == b"a"


def test_a_random_function_is_drawn_each_time() -> None:
    numbers = iter((0.0, 0.9, 0.0, 0.5))
    mappings = Mappings([Mapping("a", (Destination("b.{{random(10)}}"),))], lambda: next(numbers))

    assert [mappings.of(b"a"), mappings.of(b"a")] == [b"b.9", b"b.5"]
