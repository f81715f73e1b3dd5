"""Python for phones, which have none; it is built from Debian packages and sent by `deploy`.

debian.py ─▶ root.py ─▶ build.py ─▶ FILE.whl ─▶ kit.py ─▶ ../devices/kits.py
                         elf.py, libraries.py
"""
