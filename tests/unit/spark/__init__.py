"""Tests of the Spark format without Spark and without a server."""
