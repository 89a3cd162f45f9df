"""Subject transforms: the server stores a message under the subject that `Transform` computes."""

# Subject: routing, transforms

import random
from typing import Any

import pytest

from core.model.mapping import MappingError, check_mapping
from core.model.transform import Transform
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

TRANSFORMS = 60
FUNCTIONS = (
    "$%(i)d",
    "x",
    "{{wildcard(%(i)d)}}",
    "{{Wildcard( %(i)d )}}",
    "{{partition(%(n)d,%(i)d,%(j)d)}}",
    "{{partition(%(n)d,%(i)d)}}",
    "{{partition(%(n)d)}}",
    "{{split(%(i)d,-)}}",
    "{{Split(%(i)d,ab)}}",
    "{{split(%(i)d,)}}",
    "{{splitfromleft(%(i)d,%(n)d)}}",
    "{{splitFromRight(%(i)d,%(n)d)}}",
    "{{SliceFromLeft(%(i)d,%(n)d)}}",
    "{{slicefromright(%(i)d,%(n)d)}}",
    "{{left(%(i)d, %(n)d)}}",
    "{{Right(%(i)d,%(n)d)}}",
)
TOKENS = ("a", "abc", "a-b", "-", "--a--b", "abab", "x-ab-y", "0123456789", "ab-", "*", ">")


def _transform(chance: random.Random) -> tuple[str, str]:
    source = ["t", *(chance.choice("**a") for _ in range(chance.randrange(4)))]
    wildcards = max(source.count("*"), 1)
    dest = ["d"]
    for _ in range(chance.randrange(1, 4)):
        odd = chance.random() < 0.1
        i = chance.choice((0, -1, 4)) if odd else chance.randrange(1, wildcards + 1)
        numbers = {
            "i": i,
            "j": chance.randrange(1, wildcards + 1),
            "n": chance.choice((0, 1, 2, 3, 5, 10, -1)),
        }
        dest.append(chance.choice(FUNCTIONS) % numbers)
    if chance.random() < 0.3:
        source.append(">")
        dest.append(">")
    return ".".join(source), ".".join(dest)


def _subject(chance: random.Random) -> str:
    return ".".join(["t", *(chance.choice(TOKENS) for _ in range(chance.randrange(5)))])


@pytest.mark.parametrize("seed", range(3))
def test_subjects_are_those_that_the_reference_stores(nats_server: NatsServer, seed: int) -> None:
    chance = random.Random(seed)
    with Wire(nats_server.address) as wire:
        wire.hello()
        for number in range(TRANSFORMS):
            src, dest = _transform(chance)
            name = f"TR{seed}_{number}"
            stream: dict[str, Any] = {"name": name, "subjects": ["t.>", "t"], "storage": "memory"}
            stream["subject_transform"] = {"src": src, "dest": dest}
            created = wire.api(f"STREAM.CREATE.{name}", stream)
            try:
                check_mapping(src, dest)
            except MappingError:
                assert "error" in created, (src, dest)
                continue
            assert "error" not in created, (src, dest, created)
            subjects = [_subject(chance) for _ in range(6)]
            transform = Transform(src, dest, chance.random)
            mine = transform.apply_all([subject.encode() for subject in subjects])
            for subject, new in zip(subjects, mine, strict=True):
                seq = wire.request(subject, b"").json()["seq"]
                stored = wire.api(f"STREAM.MSG.GET.{name}", {"seq": seq})["message"]["subject"]
                assert stored == new.decode(), (src, dest, subject)
            wire.api(f"STREAM.DELETE.{name}")


def test_a_random_number_is_below_its_bound(nats_server: NatsServer) -> None:
    transform = Transform("t.*", "d.{{random(3)}}.$1", random.random)
    found = {subject for _ in range(100) for subject in transform.apply_all([b"t.a"])}
    assert found == {b"d.0.a", b"d.1.a", b"d.2.a"}
    with Wire(nats_server.address) as wire:
        wire.hello()
        stream = {
            "name": "TR_RANDOM",
            "subjects": ["t.>"],
            "subject_transform": {"src": "t.*", "dest": "d.{{random(3)}}.$1"},
        }
        wire.api("STREAM.CREATE.TR_RANDOM", stream)
        for _ in range(20):
            wire.request("t.a", b"x")
        state = wire.api("STREAM.INFO.TR_RANDOM", {"subjects_filter": ">"})["state"]
        wire.api("STREAM.DELETE.TR_RANDOM")
    assert {name.encode() for name in state["subjects"]} <= found
