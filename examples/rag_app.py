"""Answers questions from passages that two retrievers find, and logs which passages the answers cite.

    python -m examples.rag_app log
    interleaf analyze log --events citation=1 --control common_words

The first command asks some questions for each of 40 users. Replace the retrievers and `write_answer` with yours. Needs
`langchain-core`.
"""

import argparse
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

import interleaf
from interleaf.integrations import log_citations
from interleaf.integrations.langchain import LangChainRetriever

PASSAGES = {
    "wash-1": "Wash the jacket at thirty degrees. The jacket needs a liquid detergent for the wash.",
    "wash-2": "Do not wash the boots in the machine. Clean the leather of the boots with a soft brush.",
    "return-1": "You may return the order within thirty days. The refund takes five days.",
    "return-2": "You may not return the order if the label of the socks is missing.",
    "size-1": "The size of the boots is the size of your shoe. Take one size more for thick socks.",
    "size-2": "The size of the jacket is on the label in the collar of the jacket.",
    "ship-1": "The order leaves on the day that you order. The parcel to an island takes two days more.",
    "ship-2": "The tracking number of the parcel is in the message that you get for the order.",
}
QUESTIONS = {
    "How do I clean the leather of the boots?": "wash-2",
    "Which detergent is for the jacket?": "wash-1",
    "How long does the refund of the order take?": "return-1",
    "Where is the tracking number of the order?": "ship-2",
    "How long is the way of the order to an island?": "ship-1",
    "Which size of the boots is for thick socks?": "size-1",
}
USERS = 40
MODEL = Random(7)  # models draw their words


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return re.findall(r"[a-z]+", text.lower())


class WordRetriever(BaseRetriever):
    """Finds passages by the words of the question; with `rare`, a word counts more if few passages have it."""

    rare: bool

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        counts = {name: Counter(words_of(text)) for name, text in PASSAGES.items()}
        scores = dict.fromkeys(PASSAGES, 0.0)
        for word in set(words_of(query)):
            having = [name for name, words in counts.items() if words[word]]
            for name in having:
                scores[name] += math.log(len(PASSAGES) / len(having)) if self.rare else counts[name][word]
        best = sorted(scores, key=lambda name: (-scores[name], name))[:4]
        return [Document(PASSAGES[name], id=name) for name in best]


def write_answer(question: str, documents: Sequence[Document]) -> str:
    """A stand-in for a language model: it mostly cites the passage that answers, and sometimes another one.

    Give your model the passages with numbers, in this order, and ask it to cite them as [1], [2].
    """
    chances = [0.8 if one.id == QUESTIONS[question] else 0.15 for one in documents]
    cited = [number for number, chance in enumerate(chances, 1) if MODEL.random() < chance]
    return "The guide says: " + " ".join(f"{documents[number - 1].page_content} [{number}]" for number in cited)


def open_retriever(log: interleaf.LogWriter) -> LangChainRetriever:
    """The retriever to use in place of the one in production, which is the first."""
    retrievers = {"common_words": WordRetriever(rare=False), "rare_words": WordRetriever(rare=True)}
    return LangChainRetriever(retrievers, log, k=3, timeout=2.0)


def ask(retriever: LangChainRetriever, log: interleaf.LogWriter, question: str, user: str) -> str:
    """The answer to a question of a user; its citations are logged."""
    documents = retriever.invoke(question, {"metadata": {"unit": user}})
    answer = write_answer(question, documents)
    log_citations(log, answer, documents)
    return answer


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask all questions for each user."""
    parser = argparse.ArgumentParser(description="Answer questions, and log what the answers cite.")
    parser.add_argument("log", type=Path, help="the folder of the log")
    options = parser.parse_args(arguments)
    options.log.mkdir(parents=True, exist_ok=True)
    with interleaf.LogWriter(options.log, experiment="passages") as log:
        retriever = open_retriever(log)
        for number in range(USERS):
            for question in QUESTIONS:
                answer = ask(retriever, log, question, f"user-{number}")
                if number == 0:
                    print(f"{question}\n  {answer}")
    print(f"fallbacks: {retriever.counts or 'none'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
