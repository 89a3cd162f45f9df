"""The contract of the HTTP façade, from the route table: OpenAPI, AsyncAPI and HTML pages."""
