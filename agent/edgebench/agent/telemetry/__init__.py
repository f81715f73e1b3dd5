"""The process that samples the device during a run, and the sensors that it reads."""
