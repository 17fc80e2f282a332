"""FORMAT section 12.1: interleaved rANS."""

import struct

import numpy as np

from .structure import require

LANES = 16


class Table:
    """Frequencies from weights; `symbol_of` maps each of the 4096 slots."""

    def __init__(self, weights):
        weights = [int(w) for w in weights]
        n, total = len(weights), sum(weights)
        self.frequency = [1 + (w * (4096 - n) // total if total else 0) for w in weights]
        self.frequency[weights.index(max(weights))] += 4096 - sum(self.frequency)
        self.first = [sum(self.frequency[:i]) for i in range(n)]
        self.symbol_of = np.repeat(np.arange(n), self.frequency).tolist()


class Stream:
    """Takes symbols and plain bits off a stream."""

    def __init__(self, data):
        require(len(data) >= 4 * LANES and len(data) % 2 == 0, "a stream's length")
        self.states = list(struct.unpack_from("<16I", data))
        self.words = struct.unpack_from(f"<{(len(data) - 4 * LANES) // 2}H", data, 4 * LANES)
        self.at = 0

    def _advance(self, lane, frequency, offset):
        x = frequency * (self.states[lane] >> 12) + offset
        if x < 1 << 16:
            require(self.at < len(self.words), "a stream ends early")
            x = x << 16 | self.words[self.at]
            self.at += 1
        self.states[lane] = x

    def symbol(self, lane, table):
        slot = self.states[lane] & 4095
        symbol = table.symbol_of[slot]
        self._advance(lane, table.frequency[symbol], slot - table.first[symbol])
        return symbol

    def bits(self, lane, count):
        width = 12 - count
        slot = self.states[lane] & 4095
        value = slot >> width
        self._advance(lane, 1 << width, slot - (value << width))
        return value

    def done(self):
        require(self.at == len(self.words) and self.states == [1 << 16] * LANES, "a stream does not end where it should")
