"""What is shipped, and what it is made of: wheels, licences, bills of materials, files for users, the site of the docs.

What takes long is a target of make (`make wheels`, `make sbom`, `make docs`) or `slow`.
"""
