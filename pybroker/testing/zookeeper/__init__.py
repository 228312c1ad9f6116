"""Apache ZooKeeper as a child process. pom.xml pins the version, checksums.sha256 the content of its jars."""
