"""Limits of requests and events: the service refuses values beyond them, and clients do not send such values."""

MAX_DOCUMENT = 512  # characters of a document id, and of the value of an attribute
MAX_NAME = 250  # characters of the id of a unit, a session, an impression, an event: fits every index
MAX_LABEL = 100  # characters of a ranker's name, a kind of event, the name of an attribute
MAX_QUERY = 2000  # characters
MAX_USER_AGENT = 1000  # characters
MAX_ATTRIBUTES = 50
MAX_PAGE = 50
MAX_K = 200
MAX_RANK = 10_000
MAX_FIXED = 1000  # rank of a fixed document
MAX_DWELL = 1e7  # seconds
MAX_VALUE = 1e12  # of an event, above and below 0
MAX_CAPTIONS = 2000  # documents with a caption, or with the length of their text
MAX_CHARACTERS = 10_000_000  # of the text of a document
MAX_CAPTION = 20_000  # characters of a title, a URL, a snippet
MAX_HIGHLIGHTS = 1000  # of one caption
MAX_HIGHLIGHT_END = 100_000  # characters
MAX_DEEP_LINKS = 1000
