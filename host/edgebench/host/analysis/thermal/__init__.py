"""Detection of slowdowns of a device, with their times and causes."""
