"""The console: pages in a browser that show the read models and publish commands."""
