"""The SDKs of both languages, against the running server and each other."""
