"""Runs a worker: `python -m trackside.worker`."""

from trackside.telemetry.process_start import end_cleanly

if __name__ == "__main__":
    end_cleanly()  # before the imports, which take seconds
    from trackside.worker.app import main

    main()
