"""Authentication of connections, and their permissions to publish and subscribe. No I/O."""
