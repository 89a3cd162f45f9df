"""Pull requests and how they wait."""
