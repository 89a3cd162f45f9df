"""Transfer of dead letters from the consumers of this node to streams led by any node."""
