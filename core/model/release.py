"""The release of nats-server whose behaviour this server reproduces.

The module is separate from `versions`, so that INFO can be built without importing stream
configurations.
"""

API_LEVEL = 5
SERVER_VERSION = "2.15.1"
FEATURE_FLAGS = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": True,
    "js_snapshot_sources": False,
}
"""The feature flags of that release, with the values that this server follows (ADR-53)."""
