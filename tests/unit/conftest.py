"""What hypothesis may do in unit tests: as much time an example as it needs, for the machine may be busy."""

from hypothesis import settings

settings.register_profile("trackside", deadline=None)
settings.load_profile("trackside")
