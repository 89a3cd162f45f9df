"""HTTP resources for browsers: sessions (sign in, sign out), and tickets for WebSockets."""
