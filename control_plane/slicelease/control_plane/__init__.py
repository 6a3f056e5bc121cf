"""The control plane: grants slice leases over gRPC, with Redis as its ledger and RabbitMQ as its broker."""
