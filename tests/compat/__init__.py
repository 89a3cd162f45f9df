"""What `docs/compatibility.md` says, and that it says what the tests found."""
