"""Very many connections and subscriptions, and whether their memory is free again afterwards."""
