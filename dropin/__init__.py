"""The command `jetgate-nats-server`, a replacement of nats-server.

It has nats-server's command line, configuration file, signals and log.
"""
