"""The rules of streams and consumers as pure state machines: no I/O, no clock."""
