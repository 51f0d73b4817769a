"""`python -m flowc`."""

from .cli import main

if __name__ == "__main__":
    main()
