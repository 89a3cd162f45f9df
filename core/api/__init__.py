"""The JetStream API over NATS (`$JS.API.>`): the table of requests, their handlers, and routing."""
