"""The JetStream API (`$JS.API.>`): a table of requests and their handlers."""
