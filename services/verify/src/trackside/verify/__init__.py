"""Checks a log: are the invariants of streams, tasks, devices and the fleet kept?"""
