"""Deliveries: their bytes, their pace, push delivery."""
