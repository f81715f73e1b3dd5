"""A meter that computes its values: a known waveform, and nothing measured."""
