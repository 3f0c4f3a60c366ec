"""Millgate inside other frameworks: one module or package each, public under its own name.

An integration may import the gateway and everything below it, and its framework, which is loaded only if the module is
imported; no integration imports another. Shared parts are blocks.py (blocks of context in a conversation) and
passages.py (texts that another retriever found). To start reading: langchain.py.
"""
