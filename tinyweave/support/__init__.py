"""What several packages use and what is no part of a compiler: files, progress, child processes, compilers, installations."""
