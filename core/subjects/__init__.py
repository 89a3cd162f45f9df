"""Subjects: tokens, wildcards, matching, and the tree of subscriptions. Pure."""
