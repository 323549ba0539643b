"""Reading commands, verifying their signatures, and sending receipts."""
