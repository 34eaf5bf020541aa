"""Extraction of the prose of PDF, HTML, Markdown and office documents."""

from rnnlm.extension_points import Extension

EXTENSION = Extension(documents=("rnnlm.extensions.documents.document_prose",))
