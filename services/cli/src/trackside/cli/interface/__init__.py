"""The commands with their arguments and help; they import nothing but typer before they run."""
