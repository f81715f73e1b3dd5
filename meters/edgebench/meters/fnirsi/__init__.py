"""FNIRSI FNB48, C1, FNB48S and FNB58: 100 samples a second of voltage and current by USB HID."""
