"""What crosses a surface: configs, states, infos, requests, responses, numbered errors."""
