"""What is looked at before a broker starts: whose data it is given, and who else could reach it."""
