"""Did the device slow down, when, and why?"""
