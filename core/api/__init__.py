"""The JetStream API (`$JS.API.>`): the table of requests and their handlers."""
