"""Common code of HTTP handlers: route table, request (`Call`), streaming responses, entity tags."""
