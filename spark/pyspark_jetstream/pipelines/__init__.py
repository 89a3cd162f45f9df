"""Pipelines over streams, declared in YAML or Python: archive, replay, materialize, transform."""
