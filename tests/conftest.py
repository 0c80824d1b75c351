"""Settings for all tests."""

from hypothesis import settings

# Speed belongs in benchmarks: on a loaded machine a deadline fails at random.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")
