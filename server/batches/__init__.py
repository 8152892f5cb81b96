"""Files and batches that outlive the server: kept in one folder, worked on in the batch tier."""
