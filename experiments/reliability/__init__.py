"""Paper 4: the cost of the crash/recover protocol by the rate of crashes, and how long damaged state is felt."""
