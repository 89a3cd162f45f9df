"""Random tests: clients and faults on a cluster, and an offline check of all recorded answers."""
