"""ChargerLAB POWER-Z KM003C and KM002C: voltage and current of a USB-C cable, through libusb."""
