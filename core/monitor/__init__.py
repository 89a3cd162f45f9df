"""What a node says of itself over the monitoring port, with the reference server's fields."""
