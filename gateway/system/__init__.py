"""HTTP routes of the server itself: health, metrics, JetStream usage, OpenAPI and AsyncAPI."""
