"""Tests of the Spark format against servers, and with Spark itself."""
