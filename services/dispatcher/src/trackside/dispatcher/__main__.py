"""Runs the dispatcher: `python -m trackside.dispatcher`."""

from trackside.dispatcher.app import main

if __name__ == "__main__":
    main()
