"""A second decoder of the payload format, in Python and NumPy, written from docs/format/FORMAT.md alone.

It follows the document section by section and shares nothing with the C++ code, so that the two check each other. It is made
to be read, not to be fast.
"""

from .decode import FormatError, decode_file

__all__ = ["FormatError", "decode_file"]
