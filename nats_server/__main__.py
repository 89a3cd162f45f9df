"""Entry point of `python -m nats_server`, the command `jetgate-nats-server`."""

from nats_server.console import main

if __name__ == "__main__":
    main()
