"""Detection of slowdowns of a device, and of their times and causes."""
