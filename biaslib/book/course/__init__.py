"""The course: labs with exercises that are checked, as pages of the book and as notebooks to hand out."""
