"""A sidecar routing proxy for Dubbo: it knows every provider, routes each call, and says why.

Two walks make up the program.

**A call** (`proxy`, `protocol`, `dispatch`, `proxy`): bytes are *received*, cut into a *frame*;
its prelude is read into a *call*, one reference to the service's immutable snapshot is taken, the
router chain's memoised pool is looked up (*route*), instances that cannot take calls are left out
(*admit*), one is *picked*, and the frame is *forwarded* with a new id. The reply is matched by id,
*settled* into the counters, and sent back under the consumer's id. Nothing awaits in between.

**A registry change** (`registry`, `discovery`, `routing`, `dispatch`): a watch fires, the path
machine waits for the coalescing delay, re-arms and reads in one step, new child names are parsed,
instances keep their dense ids, the routers' sets are updated by difference, and the new snapshot is
published by one assignment.

Rings, outermost first; imports go downwards only: ``cli``, ``demo``, ``app``; ``admin``, ``proxy``,
``registry`` (the only rings with I/O); ``dispatch``, ``discovery``; ``routing``, ``balance``,
``resilience``, ``protocol``; ``telemetry``, ``settings``; ``model``.
"""

VERSION = "0.1.0"
