"""FNIRSI FNB48, C1, FNB48S and FNB58: voltage and current over USB HID, 100 samples per second."""
