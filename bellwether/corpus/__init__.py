"""Local corpus of dated documents, and a search in it that cannot see documents from after an instant."""

from bellwether.corpus.documents import LONGEST_TEXT, Document, read_documents
from bellwether.corpus.index import Corpus, Hit, build_index

__all__ = ["LONGEST_TEXT", "Corpus", "Document", "Hit", "build_index", "read_documents"]
