"""Captions of results: what they look like, and a model of clicks by position, relevance and caption.

caption_features.py  captions from HTML, measures, and the table of features
caption_model.py     the model: probabilities of clicks, and what a click weighs without its caption
"""
