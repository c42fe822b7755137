"""The Triple and gRPC side of the data plane: HTTP/2, and HTTP/1.1 towards consumers."""
