"""What a server has refused is not sent again, and what it would refuse is not sent."""

# Subject: SDKs

import asyncio
import json
import subprocess
from base64 import urlsafe_b64encode
from pathlib import Path

import httpx
import jetgate_client as sdk
import pytest
from jetgate_client.errors import is_passing, problem_from
from jetgate_client.generated.api.objects import delete_object_store
from jetgate_client.transport import revision_of

from tests.gateway.serving import GatewayServer
from tests.sdks.lossy import LossyWay
from tests.sdks.refusing import RefusingServer
from tests.sdks.test_python import QUICK, stream
from tests.support.natsserver import NatsServer
from tests.support.programs import node
from tests.support.scenario import run_within

_SCRIPT = Path(__file__).parent / "typescript" / "refusals.mjs"
_LARGE = bytes(20_000_000)


def in_node(built: Path, url: str, action: str, name: str = "S") -> dict[str, object]:
    """What the TypeScript SDK throws or finds in an action of `refusals.mjs`."""
    command = [node(), str(_SCRIPT), str(built), url, action, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_an_answer_that_comes_while_the_body_is_sent_is_read() -> None:
    async def scenario(url: str) -> None:
        async with sdk.connect(url, retry=QUICK) as js:
            with pytest.raises(sdk.Problem, match="body-too-large"):
                await js.store("files").put("large", _LARGE)

    with RefusingServer() as server:
        run_within(60, lambda: scenario(server.url))
        assert server.requests == 1


def test_an_answer_that_comes_while_the_body_is_sent_is_read_in_node(typescript_sdk: Path) -> None:
    with RefusingServer() as server:
        found = in_node(typescript_sdk, server.url, "object")

        assert (found["kind"], server.requests) == ("body-too-large", 1)


def test_a_message_over_the_known_limit_is_not_sent(way: LossyWay, url: str, name: str) -> None:
    async def scenario() -> None:
        async with stream(url, name), sdk.connect(way.url, retry=QUICK) as js:
            for attempt in (
                lambda: js.publish(f"{name}.x", _LARGE),
                lambda: js.bucket(name).put("a", _LARGE),
                lambda: js.request(f"{name}.x", _LARGE),
            ):
                with pytest.raises(sdk.Problem, match="body-too-large") as refused:
                    await attempt()
                assert refused.value.status == 413
            assert way.taken < 10_000
            await js.publish(f"{name}.x", _LARGE[:1_000_000])

    run_within(60, scenario)


def test_a_message_over_the_known_limit_is_not_sent_by_node(
    way: LossyWay, url: str, name: str, typescript_sdk: Path
) -> None:
    async def scenario() -> None:
        async with stream(url, name):
            found = await asyncio.to_thread(in_node, typescript_sdk, way.url, "messages", name)
            assert found["kinds"] == ["body-too-large"] * 3

    run_within(60, scenario)
    assert way.taken < 10_000


def test_each_message_of_many_has_an_outcome_of_its_own(
    url: str, name: str, typescript_sdk: Path
) -> None:
    payloads = [b"1", _LARGE[:900_000], _LARGE[:1_100_000], b"2"]
    messages = [sdk.Outgoing(f"{name}.x", payload) for payload in payloads]

    async def scenario() -> None:
        async with stream(url, name) as js:
            one, large, too_large, two = await js.publish_many(messages)
            kinds = await asyncio.to_thread(in_node, typescript_sdk, url, "many", name)
            assert kinds["outcomes"] == [4, 5, "body-too-large", 6]
            assert isinstance(too_large, sdk.Problem)
            assert too_large.status == 413
            assert [each for each in (one, large, two) if isinstance(each, sdk.Receipt)] == [
                sdk.Receipt(name, 1),
                sdk.Receipt(name, 2),
                sdk.Receipt(name, 3),
            ]

    run_within(60, scenario)


def test_a_full_stream_refuses_once(
    way: LossyWay, url: str, name: str, typescript_sdk: Path
) -> None:
    async def scenario() -> None:
        async with (
            stream(url, name, max_msgs=1, discard="new") as own,
            sdk.connect(way.url, retry=QUICK) as js,
        ):
            await own.publish(f"{name}.x")
            with pytest.raises(sdk.ServerProblem, match="stream-store-failed"):
                await js.publish(f"{name}.x")
            assert way.requests == 1
            found = await asyncio.to_thread(in_node, typescript_sdk, way.url, "publish", name)
            assert (found["kind"], way.requests) == ("stream-store-failed", 2)

    run_within(60, scenario)


@pytest.mark.parametrize(
    ("status", "kind", "passes"),
    [
        (503, "stream-store-failed", False),
        (502, "not-a-receipt", False),
        (501, "about:blank", False),
        (505, "about:blank", False),
        (413, "body-too-large", False),
        (503, "starting", True),
        (504, "no-answer", True),
        (500, "internal", True),
        (429, "too-many-requests", True),
    ],
)
def test_only_what_may_pass_is_repeated(status: int, kind: str, passes: bool) -> None:
    problem = problem_from({"type": f"urn:jetgate:problem:{kind}", "status": status})

    assert is_passing(problem) == passes


def test_an_object_without_a_digest_is_not_read_as_if_it_were_checked(
    url: str, name: str, typescript_sdk: Path
) -> None:
    """Any NATS client may store one."""
    subject = f"$O.{name}.M.{urlsafe_b64encode(b'bare').decode()}"
    known = {"name": "bare", "bucket": name, "nuid": "n", "size": 3, "chunks": 1}
    known["options"] = {"max_chunk_size": 1024}

    async def scenario() -> None:
        async with sdk.connect(url, retry=QUICK) as js:
            store = await js.put_store(name)
            await js.publish(f"$O.{name}.C.n", b"abc")
            await js.publish(subject, known)
            with pytest.raises(sdk.DigestMissing):
                await store.get("bare")
            assert await store.get("bare", unchecked=True) == b"abc"
            assert await store.get("bare", begin=1) == b"bc"
            await store.put("whole", b"abc")
            for each, is_checked in (("whole", True), ("bare", False)):
                async with store.open(each, unchecked=True) as download:
                    assert download.is_checked is is_checked
            found = await asyncio.to_thread(in_node, typescript_sdk, url, "digest", name)
            assert found == {"name": "DigestMissing", "text": "abc", "checked": [False, True]}
            await delete_object_store.asyncio_detailed(name, client=js.api)

    run_within(60, scenario)


@pytest.mark.parametrize(
    ("etag", "revision"), [('"7"', 7), ('W/"7"', 7), ("", 0), ('"7-gzip"', 0), ('W/"x"', 0)]
)
def test_a_revision_is_read_of_what_a_proxy_leaves(etag: str, revision: int) -> None:
    headers = httpx.Headers({"ETag": etag} if etag else {})
    if revision:
        assert revision_of(headers, "/v1/kv/b/a") == revision
        return
    with pytest.raises(sdk.JetgateError, match="/v1/kv/b/a: no ETag came"):
        revision_of(headers, "/v1/kv/b/a")


@pytest.mark.parametrize("bad", [".", ".."])
def test_names_that_no_url_can_have_are_refused(url: str, bad: str, typescript_sdk: Path) -> None:
    async def scenario() -> None:
        async with sdk.connect(url) as js:
            with pytest.raises(ValueError, match="cannot be names"):
                await js.store("files").get(bad)

    run_within(60, scenario)
    assert in_node(typescript_sdk, url, "name", bad)["name"] == "RangeError"


def test_a_user_of_few_rights_gets_the_limit_too() -> None:
    """It takes no permission to ask."""
    users = '{users: [{user: me, password: secret, permissions: {publish: ["a.>"]}}]}'
    with (
        NatsServer({"authorization": users}) as nats,
        GatewayServer(nats.address, with_users=True) as server,
    ):
        url = "http://{}:{}".format(*server.http)

        async def scenario() -> None:
            async with sdk.connect(url, user="me", password="secret", retry=QUICK) as js:
                with pytest.raises(sdk.Problem, match="20000000 bytes, and the server takes"):
                    await js.publish("a.b", _LARGE)

        run_within(60, scenario)
        assert server.failures == []
