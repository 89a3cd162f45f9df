"""The pages of the monitoring port (varz, connz, jsz ...), with the reference server's fields."""
