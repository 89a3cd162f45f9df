"""The release of the reference server whose behaviour this server shows.

Apart from `versions` because a server says it before it needs anything of streams.
"""

API_LEVEL = 5
SERVER_VERSION = "2.15.1"
"""The release of the reference server whose behaviour this server shows."""
FEATURE_FLAGS = {
    "js_ack_fc_v2": False,
    "js_api_reply_v2": False,
    "js_raft_delete_range": True,
    "js_snapshot_sources": False,
}
"""Switches of that release; this server behaves as with these (ADR-53)."""
