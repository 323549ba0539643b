"""Runs the scheduler: `python -m trackside.scheduler`."""

from trackside.scheduler.app import main

if __name__ == "__main__":
    main()
