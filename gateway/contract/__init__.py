"""The contract of the façade, made from the route table: an OpenAPI document, and pages to read."""
