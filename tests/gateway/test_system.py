"""Health, metrics, and the table itself."""

# Subject: HTTP, operations

from tests.gateway.conftest import Stream
from tests.gateway.serving import GatewayServer
from tests.gateway.web import Web
from tests.support.eventually import eventually


def test_health_and_readiness(web: Web) -> None:
    assert web.get("/healthz").json() == {"status": "ok"}
    eventually(lambda: web.get("/readyz").json() == {"status": "ok"})


def test_probes_may_bring_parameters_of_their_own(web: Web) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert web.get(f"{path}?probe=1&probe=2").status == 200


def test_requests_are_counted(stream: Stream) -> None:
    stream.publish("a")

    answer = stream.web.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert b'jetgate_http_requests_total{operation="publishMessage",status="201"}' in answer.body
    assert (
        b'jetgate_http_request_seconds_bucket{le="+Inf",operation="publishMessage"}' in answer.body
    )


def test_the_numbers_of_the_node_are_shown(gateway_over_nats: GatewayServer) -> None:
    body = Web(gateway_over_nats.http).get("/metrics").body.decode()

    assert 'jetgate_stream_messages{stream="ORDERS"} 3.0' in body
    assert 'jetgate_consumer_num_pending{consumer="quo\\"ted",stream="ORDERS"} 2.0' in body
    assert 'jetgate_commit_seconds_bucket{le="0.01"} 2.0' in body
    assert 'jetgate_commit_seconds_bucket{le="+Inf"} 2.0' in body
    assert "jetgate_in_msgs_total 7.0" in body
