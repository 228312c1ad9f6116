"""`AdminClient`: one file of calls for each subject, with the argument and result types in files beside it."""
