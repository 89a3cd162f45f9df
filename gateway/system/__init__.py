"""Health checks, metrics, the account, and the documents of the contract."""
