"""The official clients in Python, JavaScript and Go, against both servers."""
