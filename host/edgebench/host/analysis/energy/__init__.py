"""Energy per inference: a meter's trace, aligned with the run, with its uncertainty."""
