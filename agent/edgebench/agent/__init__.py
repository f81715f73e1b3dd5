"""The agent: a light daemon on the device that runs models and keeps what was measured."""
