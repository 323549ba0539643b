"""Runs the dispatcher: `python -m trackside.dispatcher`."""

from trackside.telemetry.process_start import end_cleanly

if __name__ == "__main__":
    end_cleanly()  # before the imports, which take seconds
    from trackside.dispatcher.app import main

    main()
