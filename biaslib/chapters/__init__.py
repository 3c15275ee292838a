"""The models of the book's chapters: trained, mapped and asked through the store, a module for each kind."""
