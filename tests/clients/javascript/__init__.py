"""The official JavaScript clients, in Node and in a browser."""
