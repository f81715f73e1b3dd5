"""A meter that computes its values from a known waveform, and measures nothing."""
