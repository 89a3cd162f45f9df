"""Pipelines over streams, declared in YAML or Python and run by Spark.

Kinds: archive, replay, materialize, transform, analytics.
"""
