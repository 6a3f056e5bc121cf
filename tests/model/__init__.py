"""The rules of the attention ledger as an explicit-state model: an explorer, the model, and variants that must fail."""
