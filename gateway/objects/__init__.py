"""HTTP resource of object stores (ADR-20): upload, download, list, watch and link objects."""
