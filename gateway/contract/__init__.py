"""Generation of the API reference from the route table: OpenAPI, AsyncAPI and HTML pages."""
