"""The gRPC side of the control plane: one file a service, pure conversions, one error table."""
