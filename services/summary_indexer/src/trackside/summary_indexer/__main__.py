"""Runs the summary-indexer: `python -m trackside.summary_indexer`."""

from trackside.summary_indexer.app import main

if __name__ == "__main__":
    main()
