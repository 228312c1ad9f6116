"""A real Apache ZooKeeper as a child process. pom.xml says which, checksums.sha256 what its jars have to be."""
