"""The process that runs one model, once, and nothing else."""
