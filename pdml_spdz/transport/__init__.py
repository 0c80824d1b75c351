"""Rounds of frames between M parties: over mutual TLS (`tls`) or between threads (`inprocess`)."""
