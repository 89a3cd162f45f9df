"""The release of nats-server whose behaviour this server reproduces.

Apart from `versions`, so that INFO can be built without importing stream configurations.
"""

API_LEVEL = 5
SERVER_VERSION = "2.15.1"
FEATURE_FLAGS = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": True,
    "js_snapshot_sources": False,
}
"""Feature flags of that release, with the values this server behaves by (ADR-53)."""
