"""The codec: what it reads, what it writes, what it says of mistakes."""

# Subject: streams, API

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ApiError
from core.jetstream.direct.request import decode_request
from core.model import codec
from core.model.account import AccountInfoResponse, AccountStats
from core.model.cluster import Placement
from core.model.consumer import (
    AckPolicy,
    ConsumerConfig,
    ConsumerInfo,
    ConsumerNamesResponse,
    CreateConsumerRequest,
    DeliverPolicy,
)
from core.model.gojson import MAX_VALUES, MAX_VALUES_ON_LOOP, JsonError, parse_all
from core.model.message import MsgGetResponse, StoredMsg
from core.model.response import ErrorBody
from core.model.stream import (
    Compression,
    Discard,
    StreamConfig,
    StreamConfigRequest,
    StreamConsumerLimits,
    StreamInfo,
    StreamInfoResponse,
    StreamNamesResponse,
    StreamSource,
    StreamState,
)
from core.rules.consumer.pull.requests import BadRequest, read_request

T = 1_714_979_289_123_456_700


def _outcome(cls: type[StreamConfigRequest] | type[CreateConsumerRequest], body: bytes) -> int:
    try:
        codec.decode(cls, body)
    except ApiError as error:
        return error.err_code
    return 0


def _refusal(cls: type[StreamConfigRequest] | type[CreateConsumerRequest], body: bytes) -> str:
    with pytest.raises(ApiError) as caught:
        codec.decode(cls, body)
    assert (caught.value.code, caught.value.err_code) == (400, 10025)
    return caught.value.description.removeprefix("invalid JSON: ")


def test_member_names_match_without_regard_to_case() -> None:
    request = codec.decode(StreamConfigRequest, b'{"NAME":"S","Max_Msgs":5}')

    assert (request.name, request.max_msgs) == ("S", 5)


def test_a_repeated_member_overwrites_and_a_repeated_object_merges() -> None:
    body = b'{"name":"A","name":"B","consumer_limits":{"max_ack_pending":1},'
    body += b'"consumer_limits":{"inactive_threshold":2},"metadata":{"a":"1"},"metadata":{"b":"2"}}'

    request = codec.decode(StreamConfigRequest, body)

    assert request.name == "B"
    assert request.consumer_limits == StreamConsumerLimits(max_ack_pending=1, inactive_threshold=2)
    assert request.metadata == {"a": "1", "b": "2"}


def test_null_leaves_scalars_alone_and_empties_the_rest() -> None:
    body = (
        b'{"name":null,"max_msgs":7,"max_msgs":null,"subjects":["a"],"subjects":null,"mirror":null}'
    )

    request = codec.decode(StreamConfigRequest, body)

    assert (request.name, request.max_msgs, request.subjects) == ("", 7, ())
    assert request.mirror is None


def test_several_values_are_read_into_one_request() -> None:
    request = codec.decode(StreamConfigRequest, b'{"name":"S"} {"max_msgs":1}')

    assert (request.name, request.max_msgs) == ("S", 1)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"name":"S","foo":1}', 'json: unknown field "foo"'),
        (b'{"mirror":{"x":1}}', 'json: unknown field "x"'),
        (b"{", "unexpected EOF"),
        (b"[]", "json: cannot unmarshal array into Go value of type server.StreamConfigRequest"),
        (
            b'{"a":1,}',
            "invalid character '}' looking for beginning of object key string at offset 8",
        ),
        (
            b'"\xff"x',
            "json: cannot unmarshal string into Go value of type server.StreamConfigRequest",
        ),
        (
            b'{"max_msgs":9223372036854775808}',
            "json: cannot unmarshal number 9223372036854775808 into Go struct field "
            "StreamConfigRequest.max_msgs of type int64",
        ),
        (
            b'{"subjects":["a",5]}',
            "json: cannot unmarshal number into StreamConfigRequest.subjects.1 of type string",
        ),
    ],
)
def test_mistakes_in_a_request_are_named(body: bytes, text: str) -> None:
    assert _refusal(StreamConfigRequest, body) == text


def test_a_wrong_choice_is_quoted() -> None:
    refused = _refusal(CreateConsumerRequest, b'{"config":{"ack_policy":"some"}}')

    assert refused == 'can not unmarshal "\\"some\\""'


def test_the_old_name_of_the_default_deliver_policy_is_read() -> None:
    body = b'{"config":{"deliver_policy":"undefined"}}'

    assert codec.decode(CreateConsumerRequest, body).config.deliver_policy is DeliverPolicy.ALL


def test_lenient_decoding_skips_unknown_members() -> None:
    config = codec.decode_lenient(StreamConfig, b'{"name":"S","later":{"x":[1]}}')

    assert config.name == "S"


def test_lenient_decoding_of_no_json_raises() -> None:
    with pytest.raises(JsonError):
        codec.decode_lenient(StreamConfig, b"x")


def test_empty_members_are_left_out_and_required_ones_stay() -> None:
    written = json.loads(codec.encode(StreamConfig(name="S")))

    assert "subjects" not in written
    assert "duplicate_window" not in written
    assert written["max_age"] == 0
    assert written["consumer_limits"] == {}
    assert written["sealed"] is False


def test_markup_characters_are_escaped() -> None:
    text = codec.encode(StreamConfig(name="S", subjects=("a.>",), description="<&>\u2028"))

    assert b'"a.\\u003e"' in text
    assert b'"\\u003c\\u0026\\u003e\\u2028"' in text


def test_the_members_of_an_info_stand_in_the_response_itself() -> None:
    info = StreamInfo(created=T, state=StreamState(messages=1, first_ts=T))

    written = json.loads(codec.encode(StreamInfoResponse(info=info)))

    assert list(written) == ["type", "total", "offset", "limit", "config", "created", "state", "ts"]
    assert written["created"] == "2024-05-06T07:08:09.1234567Z"
    assert written["state"]["last_ts"] == written["ts"] == "0001-01-01T00:00:00Z"


def test_an_error_response_has_no_info() -> None:
    error = ErrorBody(code=404, err_code=10059, description="stream not found")

    written = codec.encode(StreamInfoResponse(error=error))

    assert written == (
        b'{"type":"io.nats.jetstream.api.v1.stream_info_response","error":{"code":404,'
        b'"err_code":10059,"description":"stream not found"},"total":0,"offset":0,"limit":0}'
    )


def test_no_streams_are_null_and_no_consumers_an_empty_list() -> None:
    assert json.loads(codec.encode(StreamNamesResponse()))["streams"] is None
    assert json.loads(codec.encode(ConsumerNamesResponse()))["consumers"] == []


def test_bytes_travel_as_base64() -> None:
    message = StoredMsg(subject="s", seq=1, data=b"hello", time=T)

    written = json.loads(codec.encode(MsgGetResponse(message=message)))

    assert written["message"] == {
        "subject": "s",
        "seq": 1,
        "data": "aGVsbG8=",
        "time": "2024-05-06T07:08:09.1234567Z",
    }
    assert codec.decode_lenient(MsgGetResponse, codec.encode(MsgGetResponse(message=message))) == (
        MsgGetResponse(message=message)
    )


def test_an_account_info_is_read_back() -> None:
    response = AccountInfoResponse(stats=AccountStats(streams=3))

    written = json.loads(codec.encode(response))

    assert written["streams"] == 3
    assert written["limits"]["max_memory"] == -1


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
longs = st.integers(-(2**63), 2**63 - 1)

stream_configs = st.builds(
    StreamConfig,
    name=texts,
    description=texts,
    subjects=st.lists(texts).map(tuple),
    max_msgs=longs,
    max_msg_size=st.integers(-(2**31), 2**31 - 1),
    max_age=longs,
    discard=st.sampled_from(Discard),
    compression=st.sampled_from(Compression),
    first_seq=st.integers(0, 2**64 - 1),
    # As in what the reference server writes, an empty list of tags is none once it is read back.
    placement=st.none()
    | st.builds(Placement, cluster=texts, tags=st.none() | st.lists(texts, min_size=1).map(tuple)),
    mirror=st.none()
    | st.builds(StreamSource, name=texts, opt_start_time=st.none() | st.integers(-(10**18), 2**62)),
    metadata=st.dictionaries(texts, texts),
    allow_direct=st.booleans(),
)
consumer_configs = st.builds(
    ConsumerConfig,
    name=texts,
    ack_policy=st.sampled_from(AckPolicy),
    deliver_policy=st.sampled_from(DeliverPolicy),
    opt_start_time=st.none() | st.integers(-(10**18), 2**62),
    backoff=st.lists(longs).map(tuple),
    filter_subjects=st.lists(texts).map(tuple),
    max_deliver=longs,
)


@given(stream_configs)
def test_a_stream_config_survives_writing_and_reading(config: StreamConfig) -> None:
    assert codec.decode_lenient(StreamConfig, codec.encode(config)) == config


@given(consumer_configs)
def test_a_consumer_config_survives_writing_and_reading(config: ConsumerConfig) -> None:
    info = ConsumerInfo(config=config, num_pending=2**64 - 1)

    assert codec.decode_lenient(ConsumerInfo, codec.encode(info)) == info


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)


@given(values)
def test_every_json_text_is_parsed(value: object) -> None:
    (node,) = parse_all(json.dumps(value).encode())

    kinds = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    assert node.kind == kinds.get(type(value), "number")
    if isinstance(value, str):
        assert node.text == value
    if isinstance(value, dict):
        assert [name for name, _ in node.members] == list(value)


@given(st.binary(max_size=60))
def test_garbage_is_json_exactly_when_the_standard_parser_accepts_it(body: bytes) -> None:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    decoder = json.JSONDecoder(parse_constant=refuse)
    try:
        decoder.decode(body.decode("utf-8", "replace"))
        is_json = True
    except (ValueError, RecursionError):
        is_json = False

    try:
        nodes = list(parse_all(body))
    except JsonError:
        assert not is_json
    else:
        assert is_json == (len(nodes) == 1) or len(nodes) != 1


@given(st.binary(max_size=80))
def test_decoding_raises_nothing_but_the_numbered_error(body: bytes) -> None:
    for cls in (StreamConfigRequest, CreateConsumerRequest):
        assert _outcome(cls, body) in (0, 10025)


mutations = st.tuples(st.integers(0, 400), st.binary(max_size=3))


@given(st.lists(mutations, max_size=4))
def test_damaged_requests_raise_nothing_but_the_numbered_error(
    changes: list[tuple[int, bytes]],
) -> None:
    config = StreamConfig(name="S", subjects=("a.*",), metadata={"k": "v"}, placement=Placement())
    body = codec.encode(config)
    for place, junk in changes:
        body = body[: place % len(body)] + junk + body[place % len(body) + 1 :]
        body = body or b"{}"

    assert _outcome(StreamConfigRequest, body) in (0, 10025)


_MANY = b",".join(b'"a%d":0' % number for number in range(MAX_VALUES))


@pytest.mark.parametrize(
    "body",
    [b"{%b}" % _MANY, b"[%b]" % (b"0," * MAX_VALUES + b"0"), b'{"a":[%b]}' % (b"[]," * MAX_VALUES)],
)
def test_a_body_has_so_many_values_at_most(body: bytes) -> None:
    with pytest.raises(JsonError, match=f"more than {MAX_VALUES} values"):
        list(parse_all(body))
    assert len(list(parse_all(b"[%b]" % (b"0," * (MAX_VALUES - 2) + b"0")))) == 1


def test_consecutive_values_are_counted_together() -> None:
    assert len(list(parse_all(b"0 " * 9, 9))) == 9
    with pytest.raises(JsonError, match="more than"):
        list(parse_all(b"0 " * 10, 9))


def test_json_read_on_the_event_loop_has_fewer_levels() -> None:
    body = b'{"Batch":null,"a":[%b0]}' % (b"0," * MAX_VALUES_ON_LOOP)

    with pytest.raises(BadRequest, match=r"more than \d+ values"):
        read_request(body, b"r", 0, ConsumerConfig())
    assert decode_request(body) is None


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (rb'"\u00e9\n\/\"\\"', 'é\n/"\\'),
        (rb'"\ud83d\ude00"', "😀"),
        (rb'"\ud83d\ud83d\ude00\ude00"', "\ufffd😀\ufffd"),
        (rb'"\ud83dx"', "\ufffdx"),
        (b'"\\u0041\xff\xc3"', "A\ufffd\ufffd"),
        (b'"' + rb"\u0041" * 100_000 + b'"', "A" * 100_000),
    ],
)
def test_escapes_in_strings(literal: bytes, text: str) -> None:
    assert [node.text for node in parse_all(literal)] == [text]
