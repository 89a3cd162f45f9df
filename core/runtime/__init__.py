"""Clocks, tasks, the turn of the event loop, random ids: what depends on process and machine.

No other package creates tasks or reads clocks, so that the rest can be tested with its own.
"""
