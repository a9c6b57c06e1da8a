"""The settings of trainings. Each setting is declared once; checks, options, JSON and documentation follow from it."""
