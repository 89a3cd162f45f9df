"""The table of all HTTP operations: id, method, path, handler, and types of bodies and responses.

`gateway.contract` generates the OpenAPI document from this table. `{name}` in a path matches one
segment, percent-decoded once. `:verb` at the end of a segment is a literal part of the path.
"""

from gateway.console.routes import CONSOLE_ROUTES
from gateway.consumers.routes import CONSUMER_ROUTES
from gateway.feeds.routes import FEED_ROUTES
from gateway.kv.routes import KV_ROUTES
from gateway.messages.routes import MESSAGE_ROUTES
from gateway.objects.routes import OBJECT_ROUTES
from gateway.requests.operation import Operation
from gateway.sessions.routes import SESSION_ROUTES
from gateway.streams.routes import STREAM_ROUTES
from gateway.system.routes import ACCOUNT_ROUTES, DOCUMENT_ROUTES, HEALTH_ROUTES, REFERENCE_ROUTES
from gateway.ws.routes import WS_ROUTES

ROUTES: tuple[Operation, ...] = (
    *MESSAGE_ROUTES,
    *STREAM_ROUTES,
    *CONSUMER_ROUTES,
    *KV_ROUTES,
    *OBJECT_ROUTES,
    *ACCOUNT_ROUTES,
    *FEED_ROUTES,
    *WS_ROUTES,
    *DOCUMENT_ROUTES,
    *CONSOLE_ROUTES,
    *REFERENCE_ROUTES,
    *SESSION_ROUTES,
    *HEALTH_ROUTES,
)
