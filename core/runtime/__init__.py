"""Access to the process and the machine: clocks, tasks, loop ticks, sockets, random ids.

No other package creates tasks or reads clocks, so that tests can replace both.
"""
