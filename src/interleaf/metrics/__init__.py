"""Measures of one ranker at a time: what people do with its lists, and what judges say of them."""
