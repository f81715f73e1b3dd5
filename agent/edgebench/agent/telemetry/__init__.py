"""The process beside a run that watches the device, and the sensors that it reads."""
