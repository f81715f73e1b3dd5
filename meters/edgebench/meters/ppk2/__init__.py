"""Nordic Power Profiler Kit II: 100 kS/s of current and eight digital inputs over USB."""
