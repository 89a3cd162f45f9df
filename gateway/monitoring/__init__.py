"""Metrics of the server and the façade, and the events that they count."""
