"""The release of nats-server whose behaviour this server reproduces.

A module of its own, so that INFO can be built without importing stream configurations.
"""

API_LEVEL = 5
SERVER_VERSION = "2.15.1"
FEATURE_FLAGS = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": True,
    "js_snapshot_sources": False,
}
"""The feature flags of that release (ADR-53), with the values that this server implements."""
