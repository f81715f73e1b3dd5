"""A Python for phones, which have none: made from Debian's packages, and read for a deploy.

debian.py ─▶ root.py ─▶ build.py ─▶ FILE.whl ─▶ kit.py ─▶ ../devices/kits.py
                         elf.py, libraries.py
"""
