"""One file of pages for each subject."""
