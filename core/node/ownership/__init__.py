"""The ownership of lease groups (sets of streams): states, placement on nodes, and transfer.

`core.node` has the specification.
"""
