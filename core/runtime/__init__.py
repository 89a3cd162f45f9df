"""Clocks, tasks, loop ticks, random ids: everything that depends on process and machine.

No other package creates tasks or reads clocks, so that tests can replace both.
"""
