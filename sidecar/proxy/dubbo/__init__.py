"""The Dubbo TCP side of the data plane."""
