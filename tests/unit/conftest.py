"""What hypothesis may do in unit tests: as much time an example as it needs, for the machine may be busy."""

from hypothesis import HealthCheck, settings

settings.register_profile("trackside", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("trackside")
