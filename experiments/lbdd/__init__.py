"""Paper 5: a payload that subscribers help to distribute, beside a publisher that sends every copy itself."""
