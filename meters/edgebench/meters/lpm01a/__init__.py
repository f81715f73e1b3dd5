"""ST X-NUCLEO-LPM01A (PowerShield): up to 100 kS/s of current, or energy of intervals, over USB."""
