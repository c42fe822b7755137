"""Sets of dense instance ids, as compressed bitmaps.

The choice of pyroaring is hidden here: the other rings use these two names only. A frozen set is
immutable and hashable, so it may be shared by snapshots; a mutable set is for building one.
"""

from __future__ import annotations

from pyroaring import BitMap as MutableInstanceSet
from pyroaring import FrozenBitMap as InstanceSet

EMPTY: InstanceSet = InstanceSet()

__all__ = ["EMPTY", "InstanceSet", "MutableInstanceSet"]
