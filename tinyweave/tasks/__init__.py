"""Tasks: from a user's files to what a network is fed. In: folders. Out: Datasets, and the C of what prepares the samples."""
