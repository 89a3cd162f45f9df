"""Schedules of messages (ADR-51): patterns, headers, pending schedules."""
