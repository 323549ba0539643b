"""Runs the console: `python -m trackside.console`."""

from trackside.console.app import main

if __name__ == "__main__":
    main()
