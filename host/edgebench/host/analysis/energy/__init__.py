"""What an inference costs: a meter's trace, aligned with the run, with its uncertainty."""
