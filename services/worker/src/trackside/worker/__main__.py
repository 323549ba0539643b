"""Runs a worker: `python -m trackside.worker`."""

from trackside.worker.app import main

if __name__ == "__main__":
    main()
