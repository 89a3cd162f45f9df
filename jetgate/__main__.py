"""`python -m jetgate` is the command `jetgate`."""

from jetgate.console import main

if __name__ == "__main__":
    main()
