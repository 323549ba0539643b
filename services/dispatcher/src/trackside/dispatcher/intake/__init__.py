"""Commands on their way into their streams: reading, signatures, receipts."""
