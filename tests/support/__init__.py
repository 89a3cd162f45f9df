"""What the suites share: raw sockets, servers to talk to, waiting for observations."""
