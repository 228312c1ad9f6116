"""What is looked at before a broker starts: whose data it is given, in which state, and who else could reach it."""
