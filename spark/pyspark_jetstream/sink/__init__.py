"""Writers of the format `jetstream`: publish the rows of batch and streaming queries over NATS."""
