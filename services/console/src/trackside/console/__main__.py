"""Runs the console: `python -m trackside.console`."""

from trackside.telemetry.process_start import end_cleanly

if __name__ == "__main__":
    end_cleanly()  # before the imports, which take seconds
    from trackside.console.app import main

    main()
