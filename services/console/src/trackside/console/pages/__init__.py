"""The pages of the console: each reads rows and returns what its template shows."""
