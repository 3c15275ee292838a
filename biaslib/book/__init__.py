"""Run a notebook with parameters, run them all, record their numbers, make the pages.

Its front door is empty, since every notebook reads records and should not wait for what builds books.
"""
