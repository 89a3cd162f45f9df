"""The pages of the HTTP monitoring port (varz, connz, jsz ...), with the fields of nats-server."""
