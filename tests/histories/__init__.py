"""Histories: a load, faults, and an offline check of all answers that clients received."""
