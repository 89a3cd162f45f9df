"""What travels on the NATS port, byte by byte, compared with the reference server."""
