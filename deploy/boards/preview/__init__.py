"""Draws a board without Grafana: the same queries on the same data, in simple SVG and HTML.

It shows what is in a panel and whether it is readable; it is not how Grafana looks.
"""
