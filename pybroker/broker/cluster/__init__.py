"""What everybody but the controller has of it: a picture of the cluster to read, and a port for what is to be
decided."""
