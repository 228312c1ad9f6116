"""What is shipped and its contents: wheels, licences, bills of materials, files for users, the site of the docs.

Slow checks are targets of make (`make wheels`, `make sbom`, `make docs`), or tests marked `slow`.
"""
