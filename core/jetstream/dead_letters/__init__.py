"""Dead letters: from the consumers that this node leads into their streams, whoever leads these."""
