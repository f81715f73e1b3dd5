"""The process beside a run that samples the device, and the sensors that it reads."""
