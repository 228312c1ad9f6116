"""`AdminClient`: a file of calls for each subject, the types they take and give beside them."""
