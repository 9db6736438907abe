"""Networks of papers, described as Archs, or as layers and graphs if an Arch cannot describe them; and patches."""
