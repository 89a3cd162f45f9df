"""Pull requests of consumers: parsing, the queue in which they wait, priority groups."""
