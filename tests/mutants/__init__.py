"""Small faults put into the product one at a time, to see that a test fails for each: no tests of its own."""
