"""Entry point of `python -m dropin`, the command `jetgate-nats-server`."""

from dropin.console import main

if __name__ == "__main__":
    main()
