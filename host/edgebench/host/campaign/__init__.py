"""Campaigns make a matrix of runs on several devices, and resume after any failure of the host."""
