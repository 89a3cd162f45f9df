"""Reading streams for those who connect by WebSocket or server-sent events: in order, each at a
pace of its own, and never with a silent hole."""
