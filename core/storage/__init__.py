"""Durable storage: the interfaces, and PostgreSQL behind them."""
