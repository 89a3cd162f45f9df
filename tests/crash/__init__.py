"""Tests that kill the server repeatedly and check its durability guarantees."""
