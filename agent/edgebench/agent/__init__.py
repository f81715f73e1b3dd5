"""The agent: a light daemon on the device that runs models and stores the measurements."""
