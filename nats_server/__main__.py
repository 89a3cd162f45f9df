"""`python -m nats_server` is the command `jetgate-nats-server`."""

from nats_server.console import main

if __name__ == "__main__":
    main()
