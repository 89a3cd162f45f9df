"""Entry point of `python -m jetgate`, the command `jetgate`."""

from jetgate.console import main

if __name__ == "__main__":
    main()
