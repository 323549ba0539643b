"""Runs the summary-indexer: `python -m trackside.summary_indexer`."""

from trackside.telemetry.process_start import end_cleanly

if __name__ == "__main__":
    end_cleanly()  # before the imports, which take seconds
    from trackside.summary_indexer.app import main

    main()
