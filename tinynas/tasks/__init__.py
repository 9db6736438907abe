"""Read labelled samples, and prepare them as firmware does. In: folders. Out: Datasets, and the C of the same preparation."""
