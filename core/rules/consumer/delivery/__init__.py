"""Deliveries of consumers: protocol lines, rate limit and replay pace, push delivery."""
