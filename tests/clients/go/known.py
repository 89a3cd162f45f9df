"""Tests that nats-server passes and jetgate does not, by name, with the reason."""

KNOWN = {
    "TestOptions": "gives a server 100 ms to start again",
    "TestJetStreamOrderedConsumerRecreateAfterReconnect": "consumers in memory survive a restart",
}
