"""The suites that a connector must pass, and a hostile market to test against."""
