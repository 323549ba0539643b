"""What commands run on: addresses, options, failures, the loop."""
