"""Paper 4: what the crash/recover protocol costs by how often brokers crash, and how long damaged state is felt."""
