"""What an operator can tell a node, and where it tells what came of it."""
