"""The pages of the monitoring port (varz, connz, jsz ...), with the fields of nats-server."""
