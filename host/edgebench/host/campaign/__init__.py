"""Campaigns: a matrix of runs over devices, resumable after any failure of the host."""
