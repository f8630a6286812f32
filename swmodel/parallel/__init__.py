"""Tiles, the verbs with which they talk, and the halo exchange built on them."""
from .communicator import Communicator
from .decomposition import Decomposition, Tile, TileError, best_layout
from .serial import SerialCommunicator

__all__ = ["Communicator", "Decomposition", "SerialCommunicator", "Tile", "TileError", "best_layout"]
