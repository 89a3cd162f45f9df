"""Dead letters: storing messages that a consumer gave up in the configured dead-letter stream.

The consumer is led by this node; its dead-letter stream may be led by any node.
"""
