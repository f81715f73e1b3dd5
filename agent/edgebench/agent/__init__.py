"""The agent, a light daemon that runs models on its device and stores the measurements."""
