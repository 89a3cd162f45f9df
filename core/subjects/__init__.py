"""NATS subjects as bytes: tokens, wildcards, matching, and the trie of subscriptions. No I/O."""
