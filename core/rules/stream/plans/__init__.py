"""Deciding changes of a stream as plans (`StreamPlan`), one module per kind of change."""
