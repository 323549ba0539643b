"""Runs the scheduler: `python -m trackside.scheduler`."""

from trackside.telemetry.process_start import end_cleanly

if __name__ == "__main__":
    end_cleanly()  # before the imports, which take seconds
    from trackside.scheduler.app import main

    main()
