"""The frames of the WebSocket, for the AsyncAPI document."""

from gateway.contract.asyncapi import Frame

FRAMES: tuple[Frame, ...] = ()
