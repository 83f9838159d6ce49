"""Paper 5: a payload that subscribers help to distribute, compared with a publisher that sends every copy itself."""
