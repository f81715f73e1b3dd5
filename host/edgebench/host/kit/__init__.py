"""Python for phones, which have no Python: built from Debian packages, and sent by `deploy`.

debian.py ─▶ root.py ─▶ build.py ─▶ FILE.whl ─▶ kit.py ─▶ ../devices/kits.py
                         elf.py, libraries.py
"""
