"""The sink: rows into streams, in batch and streaming, over the NATS protocol."""
