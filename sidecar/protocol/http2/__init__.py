"""HTTP/2: one connection over nghttp2, and a meter for what a peer does too much of."""
