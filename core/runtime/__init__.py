"""What the process takes from its environment: clocks, tasks, the turn of the event loop, entropy.

No other package creates tasks or reads clocks, so that the rest can be tested with its own.
"""
