"""The kernel: the only package that touches tasks, clocks and entropy."""
