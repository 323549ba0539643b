"""The web server of the console: routes, users, security, templates, assets."""
