"""Read files that hold many labelled samples. In: tables, NumPy archives, .ts and .parquet files. Out: `sample.Sample`."""
