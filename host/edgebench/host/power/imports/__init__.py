"""Imports files that other programs or meters have written, and turns them into recordings."""
